package vyos
