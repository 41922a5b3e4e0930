package lab

import "context"

func AnycastDbg(ctx context.Context, o AnycastOptions) (*AnycastLab, error) {
	n, err := New(ctx)
	if err != nil {
		return nil, err
	}
	l := &AnycastLab{Net: n, Prefixes: prefixes(o)}
	if o.Services == nil {
		o.Services = []NamedService{{"resolver", l.Prefixes}}
	}
	l.options = o
	return l, l.build(ctx, o)
}
