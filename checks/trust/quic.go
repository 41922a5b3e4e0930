package trust

import (
	"context"
	"crypto/tls"
	"net"

	"vouch/checks"
)

// Begin is Config for one handshake over socket that a library makes as part of its own, such as one of QUIC, which how
// names. Whoever looks on is told what is offered, and which certificate is sent.
func (c *Client) Begin(ctx context.Context, how string, socket net.Conn) (*tls.Config, error) {
	shared, err := c.Config(ctx)
	if err != nil || !checks.Traced(ctx) {
		return shared, err
	}
	checks.Tracef(ctx, checks.Sent, "%s handshake%s", how, c.offer(socket))
	conf := shared.Clone()
	conf.GetClientCertificate = func(info *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		return c.answer(ctx, info, shared.Certificates), nil
	}
	return conf, nil
}
