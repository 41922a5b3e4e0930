package http

import (
	"fmt"
	nethttp "net/http"
	"net/url"
	"slices"

	"vouch/checks"
)

// follow gives where an answer leads to, or nil where it is to be judged as it is: a redirect whose status
// is expected is no redirect.
func (c *checker) follow(v visit, a *answer, followed int) (*visit, *checks.Failure) {
	to := a.Header.Get("Location")
	switch {
	case c.redirects == 0 || !slices.Contains(redirectCodes, a.StatusCode) || c.want.status.accepts(a.StatusCode):
		return nil, nil
	case to == "":
		return nil, &checks.Failure{Reason: checks.ReasonStatus,
			Detail: fmt.Sprintf("status %s, want %s, and it has no Location to be followed to%s", a.status(), c.want.status, begins(a.body))}
	}
	stray := func(why string) *checks.Failure {
		return &checks.Failure{Reason: checks.ReasonMismatch, Detail: fmt.Sprintf("status %s leads to %s: %s", a.status(), excerpt(to), why)}
	}
	next, err := v.url.join(to)
	if err != nil {
		return nil, stray("the URL " + err.Error())
	}
	switch {
	case followed >= c.redirects:
		return nil, stray(fmt.Sprintf("no more than %d redirects are followed", c.redirects))
	case c.clients[next.host] == nil:
		return nil, stray(fmt.Sprintf("the address %s is only for %s; redirect_hosts may name more", c.at.Addr(), c.url.host))
	case v.url.scheme == "https" && next.scheme == "http":
		return nil, stray("from https:// to http:// none is followed")
	}
	return &visit{url: next, method: after(a.StatusCode, v.method), start: v.start}, nil
}

// redirectCodes are those of redirects (RFC 9110, section 15.4).
var redirectCodes = []int{nethttp.StatusMovedPermanently, nethttp.StatusFound, nethttp.StatusSeeOther,
	nethttp.StatusTemporaryRedirect, nethttp.StatusPermanentRedirect}

// after gives the method to follow a redirect with.
func after(code int, method string) string {
	switch {
	case code == nethttp.StatusSeeOther && method != nethttp.MethodHead,
		code <= nethttp.StatusFound && method == nethttp.MethodPost:
		return nethttp.MethodGet
	}
	return method
}

// join reads the URL of a redirect, which may be relative.
func (a address) join(location string) (address, error) {
	base, err := url.Parse(a.full())
	if err != nil {
		return address{}, &urlError{what: "is no URL"}
	}
	to, err := base.Parse(location)
	if err != nil {
		return address{}, &urlError{what: "is no URL"}
	}
	to.Fragment = ""
	return fromURL(to)
}
