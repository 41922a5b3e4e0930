package include

import (
	"strings"

	"vouch/routers"
)

// Off gives the same file with everything withdrawn, whatever the settings are that it was written for. An error
// says why it is not a whole file of vouch's.
func Off(text []byte) ([]byte, error) {
	f, err := Parse(text)
	if err != nil {
		return nil, err
	}
	all := f.All()
	for i := range all {
		all[i].Want = routers.Withdrawn
	}
	return Render(Format{Style: styleOf(string(text)), Version: f.Version}, all), nil
}

// styleOf tells the style by what is defined.
func styleOf(text string) string {
	_, defined, _ := strings.Cut(text, state+end)
	switch {
	case strings.HasPrefix(defined, "protocol "):
		return Routes
	case strings.Contains("\n"+defined, "\nfunction "):
		return Function
	case strings.Contains(defined, "["):
		return List
	}
	return Switch
}
