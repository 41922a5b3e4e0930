package http

import "testing"

func BenchmarkCheck(b *testing.B) {
	s := serve(b, hello)
	for _, way := range []string{"plain", "1.1", "2", "3"} {
		b.Run(way, func(b *testing.B) {
			c := create(b, s.spec(way, "/"))
			b.ReportAllocs()
			for b.Loop() {
				if err := c.Check(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
