# TOML 1.0 of nested data, without knowing any key of it. Tables and keys are in alphabetical order, so that
# the same data make the same file. What TOML has no word for is an error that names its key.
Puppet::Functions.create_function(:'vouch::to_toml') do
  dispatch :to_toml do
    param 'Hash', :data
    return_type 'String'
  end

  def to_toml(data)
    table(data, [])
  end

  # A table: its own keys, and then the tables in it.
  def table(data, path)
    tables, own = data.sort_by { |k, _| k.to_s }.partition { |_, v| v.is_a?(Hash) }
    text = own.map { |k, v| "#{key(k)} = #{value(v, path + [k])}\n" }.join
    tables.each do |k, v|
      inner = path + [k]
      text << "\n[#{inner.map { |name| key(name) }.join('.')}]\n" if v.empty? || v.values.any? { |x| !x.is_a?(Hash) }
      text << table(v, inner)
    end
    text
  end

  def value(v, path)
    case v
    when String then quoted(v)
    when true, false, Integer, Float then v.to_s
    when Array then "[#{v.map { |x| value(x, path) }.join(', ')}]"
    when Hash then "{ #{v.sort_by { |k, _| k.to_s }.map { |k, x| "#{key(k)} = #{value(x, path + [k])}" }.join(', ')} }"
    when nil, :undef then raise ArgumentError, "#{path.join('.')} has no value: give it one, or leave the key out"
    else raise ArgumentError, "#{path.join('.')} is a #{v.class}, which vouch has no use for: write it as a string"
    end
  end

  # A key, in quotes where it needs them.
  def key(name)
    name.to_s.match?(/\A[A-Za-z0-9_-]+\z/) ? name.to_s : quoted(name.to_s)
  end

  # A string in double quotes.
  def quoted(text)
    '"' + text.gsub(/["\\]/) { |c| "\\#{c}" }.gsub(/[\x00-\x1f\x7f]/) { |c| format('\\u%04X', c.ord) } + '"'
  end
end
