package config

import (
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/google/go-cmp/cmp"
)

const hardToLocate = `# [not.a.table]
top = 1 # top = 2
[service.a.check."x.y"] # header
  'q"k' = """
[fake]
a = 1
""" 
dotted.key."with \u0020" = 'x'
list = [ # comment ]
  "one]", [1, 2],
	{ in = "li#ne", deep.er = 3 },
]
when = 1979-05-27 07:32:00
quotes = """a"b\"""c"""""
[service . a]
interval = "1s"
[[many]]
k = 1
[[many]]
k = 2
`

func TestLocate(t *testing.T) {
	if _, err := toml.Decode(hardToLocate, &map[string]any{}); err != nil {
		t.Fatalf("the text is no TOML: %v", err)
	}
	want := places{
		"top":                                       {2, 1, `1`},
		"service":                                   {3, 1, ""},
		"service.a":                                 {15, 1, ""},
		"service.a.interval":                        {16, 1, `"1s"`},
		"service.a.check":                           {3, 1, ""},
		`service.a.check."x.y"`:                     {3, 1, ""},
		`service.a.check."x.y"."q\"k"`:              {4, 3, "\"\"\"\n[fake]\na = 1\n\"\"\""},
		`service.a.check."x.y".dotted`:              {8, 1, ""},
		`service.a.check."x.y".dotted.key`:          {8, 1, ""},
		`service.a.check."x.y".list[0]`:             {10, 3, `"one]"`},
		`service.a.check."x.y".list[1]`:             {10, 11, `[1, 2]`},
		`service.a.check."x.y".list[2]`:             {11, 2, `{ in = "li#ne", deep.er = 3 }`},
		`service.a.check."x.y".list.in`:             {11, 4, `"li#ne"`},
		`service.a.check."x.y".list.deep`:           {11, 18, ""},
		`service.a.check."x.y".list.deep.er`:        {11, 18, `3`},
		`service.a.check."x.y".when`:                {13, 1, `1979-05-27 07:32:00`},
		`service.a.check."x.y".quotes`:              {14, 1, `"""a"b\"""c"""""`},
		"many":                                      {17, 1, ""},
		"many.k":                                    {18, 1, `1`},
		`service.a.check."x.y".dotted.key."with  "`: {8, 1, `'x'`},
		`service.a.check."x.y".list`:                {9, 1, "[ # comment ]\n  \"one]\", [1, 2],\n\t{ in = \"li#ne\", deep.er = 3 },\n]"},
	}
	got := locate(hardToLocate)
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(place{})); diff != "" {
		t.Errorf("locate: -want +got:\n%s", diff)
	}
}

func TestLocateBehindByteOrderMark(t *testing.T) {
	got := locate("\xef\xbb\xbfa = 1\r\nb = 2\r\n")
	want := places{"a": {1, 1, "1"}, "b": {2, 1, "2"}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(place{})); diff != "" {
		t.Errorf("locate: -want +got:\n%s", diff)
	}
}

// FuzzLocate: every key of a text that the library accepts is found, and no text makes it panic.
func FuzzLocate(f *testing.F) {
	f.Add(hardToLocate)
	f.Add(string(Example()))
	for _, s := range []string{
		"", "[", "[[", "a", "a.", `"`, `'''`, "a=[", "a={", "a={b=[{", "[[a]]\nb.c=[[{d=1}]]", "a = {\n b = 1, # c\n}\n",
		"a=[\"\"\"\\\"\"\"\"]", "\"\\u00e9\".'' = 1", "a = 1\r\n[ 'b' . c ]\r\nd=+inf\n",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		found := locate(text)
		md, err := toml.Decode(text, &map[string]any{})
		if err != nil {
			return
		}
		for _, key := range md.Keys() {
			at, ok := found[key.String()]
			if !ok {
				t.Errorf("key %s was not found", key)
			}
			if at.line < 1 || at.col < 1 {
				t.Errorf("key %s is at %d:%d", key, at.line, at.col)
			}
		}
	})
}
