# Configures vouch, and puts each change in force.
#
# @param config
#   All of vouch.toml as nested data. The module knows no key of it; `vouch config example` prints every one.
# @param deb
#   A file on the node, the .deb to install. Without it vouch is there already, and is left alone.
# @param router_change
#   What becomes of a change of [router]: refuse fails, and leaves the old one in force; drain drains the
#   services, restarts vouch and resumes them. Then let no two nodes run at the same time.
# @param config_file
#   Where the configuration is.
# @param binary
#   Where vouch is.
# @param apply_file
#   Where the script is put that puts a configuration in force.
# @param manage_service
#   Whether vouch is started, now and at boot.
class vouch (
  Hash[String, Data] $config,
  Optional[String[1]] $deb = undef,
  Enum['refuse', 'drain'] $router_change = 'refuse',
  String[1] $config_file = '/etc/vouch/vouch.toml',
  String[1] $binary = '/usr/bin/vouch',
  String[1] $apply_file = '/usr/local/sbin/vouch-apply',
  Boolean $manage_service = true,
) {
  if $deb {
    package { 'vouch':
      ensure   => installed,
      provider => 'dpkg',
      source   => $deb,
      before   => File[$config_file],
    }
  }

  file { $apply_file:
    ensure => file,
    mode   => '0755',
    source => 'puppet:///modules/vouch/vouch-apply',
  }

  # A file that vouch refuses never gets to its place.
  file { $config_file:
    ensure       => file,
    mode         => '0644',
    content      => epp('vouch/vouch.toml.epp', { 'config' => $config }),
    validate_cmd => "${binary} validate --config %",
  }

  if $manage_service {
    service { 'vouch':
      ensure  => running,
      enable  => true,
      require => File[$config_file],
      before  => Exec['vouch-apply'],
    }
  }

  # A reload where that is enough, else a restart; fails when the new configuration does not come in force.
  # vouch itself is asked whether it is: so a run that was cut short, or a reload that vouch refused, is made up
  # for by the next run.
  $drain = $router_change ? {
    'drain' => ['--drain'],
    default => [],
  }
  exec { 'vouch-apply':
    command     => [$apply_file] + $drain,
    unless      => [['/bin/sh', '-c', 'test ! -e "$0" || "$0" --check', $apply_file]], # a dry run may be before all
    environment => ["VOUCH=${binary}", "VOUCH_CONFIG=${config_file}"],
    timeout     => 600,
    logoutput   => on_failure,
    require     => File[$apply_file, $config_file],
  }
}
