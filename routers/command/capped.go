package command

// capped keeps the first or the last max bytes written to it and takes the rest without a word.
type capped struct {
	max  int
	tail bool
	cut  bool
	buf  []byte
}

// Write never fails and never takes less than all.
func (c *capped) Write(p []byte) (int, error) {
	n := len(p)
	if !c.tail {
		if room := c.max - len(c.buf); n > room {
			p, c.cut = p[:room], true
		}
		c.buf = append(c.buf, p...)
		return n, nil
	}
	c.buf = append(c.buf, p...)
	if len(c.buf) > 2*c.max { // moved seldom, not at every write
		c.buf, c.cut = append(c.buf[:0], c.last()...), true
	}
	return n, nil
}

func (c *capped) last() []byte {
	return c.buf[max(0, len(c.buf)-c.max):]
}

// bytes gives what was kept.
func (c *capped) bytes() []byte {
	if len(c.buf) > c.max {
		c.cut = true
	}
	return c.last()
}
