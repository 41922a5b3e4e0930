package http

import (
	"errors"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"vouch/checks"
)

// An address is a URL in its parts, as a request needs them.
type address struct {
	scheme string // "http" or "https"
	host   string // a name in lower case, or an IP address without brackets and zone
	zone   string // of a link-local address: the interface, which is no business of the server (RFC 6874, section 1)
	port   uint16
	rest   string // path and query, as they are sent
}

// A urlError says what is wrong with a URL, and what to do.
type urlError struct{ what, wayOut string }

func (e *urlError) Error() string { return e.what }

func urlProblem(key, got string, err error) checks.Problem {
	if u, err := url.Parse(got); err == nil {
		got = u.Redacted()
	}
	p := checks.Problem{Key: key, What: err.Error(), Got: got, WayOut: `write such as "https://www.example.net/health"`}
	if e := (*urlError)(nil); errors.As(err, &e) && e.wayOut != "" {
		p.WayOut = e.wayOut
	}
	return p
}

// parseURL reads an absolute URL. The error is a *urlError.
func parseURL(s string) (address, error) {
	if s == "" {
		return address{}, &urlError{what: "is missing"}
	}
	u, err := url.Parse(s)
	if err != nil {
		return address{}, &urlError{what: "is no URL"}
	}
	return fromURL(u)
}

func fromURL(u *url.URL) (address, error) {
	a := address{scheme: u.Scheme, port: 443}
	switch {
	case a.scheme == "http":
		a.port = 80
	case a.scheme != "https":
		return a, &urlError{what: "must begin with http:// or https://"}
	}
	if u.User != nil {
		return a, &urlError{"must not have a user in it", `write headers = { Authorization = "Basic …" }`}
	}
	if u.Fragment != "" {
		return a, &urlError{"has a fragment, which is never sent", "remove what follows the #"}
	}
	if p := u.Port(); p != "" {
		n, err := strconv.ParseUint(p, 10, 16)
		if err != nil || n == 0 {
			return a, &urlError{what: "has a port that is none"}
		}
		a.port = uint16(n)
	}
	var err error
	if a.host, err = hostname(u.Hostname()); err != nil {
		return a, &urlError{what: err.Error()}
	}
	if ip, err := netip.ParseAddr(a.host); err == nil {
		a.host, a.zone = ip.WithZone("").String(), ip.Zone()
	}
	a.rest = u.RequestURI()
	return a, nil
}

// hostname gives a name or an address in the form that they are compared in.
func hostname(s string) (string, error) {
	if ip, err := netip.ParseAddr(s); err == nil {
		if ip = ip.Unmap(); ip.IsUnspecified() || ip.IsMulticast() {
			return "", errors.New("must be of one host")
		}
		return ip.String(), nil
	}
	name := strings.ToLower(strings.TrimSuffix(s, "."))
	if name == "" || len(name) > 253 {
		return "", errors.New("has no host")
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return "", errors.New("has a host that is no name: letters, digits and hyphens (of others the xn-- form)")
		}
	}
	return name, nil
}

// named says whether the host is a name.
func (a address) named() bool {
	_, err := netip.ParseAddr(a.host)
	return err != nil
}

// address gives the URL's own address; it is invalid if the host is a name.
func (a address) address() netip.AddrPort {
	ip, _ := netip.ParseAddr(a.host)
	return netip.AddrPortFrom(ip.WithZone(a.zone), a.port)
}

// authority gives the value of Host: without the port where it is the scheme's.
func (a address) authority() string {
	if a.scheme == "http" && a.port == 80 || a.scheme == "https" && a.port == 443 {
		if strings.Contains(a.host, ":") {
			return "[" + a.host + "]"
		}
		return a.host
	}
	return net.JoinHostPort(a.host, strconv.Itoa(int(a.port)))
}

// full gives the whole URL.
func (a address) full() string { return a.scheme + "://" + a.authority() + a.rest }

// String gives the URL with the zone, and without its query, whose values may be secret.
func (a address) String() string {
	path, _, query := strings.Cut(a.rest, "?")
	if query {
		path += "?…"
	}
	if a.zone != "" {
		a.host += "%25" + a.zone
	}
	return a.scheme + "://" + a.authority() + path
}
