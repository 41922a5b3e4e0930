package state

// The kinds of events. A kind is also the journal's MESSAGE_ID, so none is ever renamed.
const (
	KindStart    = "start"
	KindReady    = "ready"
	KindStop     = "stop"
	KindReload   = "reload"
	KindCheck    = "check"
	KindVerdict  = "verdict"
	KindDecision = "decision"
	KindStage    = "stage"
	KindDiverged = "diverged"
	KindSettled  = "settled"
	KindRouter   = "router"
	KindFinding  = "finding"
	KindDrain    = "drain"
	KindFile     = "file"
	KindTask     = "task"
)

// A Kind is one kind of event: what it means and what to do about it, for people.
type Kind struct {
	Name    string
	Subject string // one line; @VOUCH_…@ stands for a field that every event of the kind has
	Means   string
	Do      string // the way out; empty: nothing needs to be done
}

// Kinds gives every kind of event, in the order in which a node meets them.
func Kinds() []Kind {
	return []Kind{
		{KindStart, "vouch has started",
			"The agent has read its configuration and begins to check. What was announced before stays announced until the checks have decided.", ""},
		{KindReady, "vouch is ready",
			"Every loop runs, and the routing daemon has been asked once, also if it did not answer.", ""},
		{KindStop, "vouch stops",
			`The agent was asked to stop. Services with on_stop = "withdraw" are withdrawn first; of the others, what is announced stays announced, and nothing watches it any more.`,
			"An event of this kind at the level error names a prefix that could not be read to be withdrawn in time: look at the routing daemon yourself."},
		{KindReload, "The configuration was read again",
			"At the level info the new configuration is in force. At the level error it was refused as a whole, and the old one stays in force.",
			"When it was refused: \"vouch validate\" shows all mistakes with file and line. Correct them and reload again."},
		{KindCheck, "Check @VOUCH_CHECK@ of @VOUCH_SERVICE@ changed",
			"The check gives another result than before; the reason is one of a closed set. This alone announces and withdraws nothing: the service's rise and fall count rounds.",
			"When it failed: \"vouch check -v --only @VOUCH_SERVICE@/@VOUCH_CHECK@\" runs it now, and shows what is sent and what comes back."},
		{KindVerdict, "Service @VOUCH_SERVICE@ has another verdict",
			"Enough rounds in a row were bad, or good, for the service to be down, or up.",
			"When it went down: \"vouch explain @VOUCH_SERVICE@\" shows what decides, and what happens next. Mend the service; vouch announces it again by itself."},
		{KindDecision, "The prefixes of @VOUCH_SERVICE@ ought to be something else now",
			"What follows from the verdict, from drains and from the rules before them has changed. The change is asked of the routing daemon, and read back.", ""},
		{KindStage, "@VOUCH_PREFIX@ was read to be @VOUCH_STAGE@",
			"This is what the routing tables say, not what was asked for: absent, configured, selected, advertised, or unknown when they could not be read.",
			"At the level warn it is no more what it ought to be. Either no peer has it, because the routing daemon or a session was started anew; or somebody or something else than vouch has changed it, and vouch puts it right. If that happens again and again, find who does it (networkd, netplan, another tool on the node)."},
		{KindDiverged, "@VOUCH_PREFIX@ is not as it ought to be",
			"A change was asked for, and the routing tables do not say that it was made. It is tried again for ever, with growing pauses. Until it succeeds the network does something else than it ought to: a sick node may still be announced.",
			"\"vouch explain\" with the name of its service gives the cause and the way out; \"vouch doctor\" looks at the routing daemon. If a sick node must go at once, stop its routing daemon."},
		{KindSettled, "@VOUCH_PREFIX@ is as it ought to be again",
			"What diverged was read to be right.", ""},
		{KindRouter, "The routing daemon changed",
			"The routing daemon cannot be read any more, can be read again, or is another one than before. While it cannot be read, stages are unknown: nothing is announced, and withdraws are tried all the same.",
			"When it cannot be read: is the daemon running, and may vouch open its socket? \"vouch doctor\" names the socket, its permissions and the group to join."},
		{KindFinding, "Something about the routing daemon will hurt",
			"Looking at the routing daemon's configuration, vouch found what keeps a prefix from being announced or withdrawn, or will some day, such as at the next boot; at the level info, that it is no longer so.",
			"The text names the way out. \"vouch doctor\" shows all findings."},
		{KindDrain, "@VOUCH_SERVICE@ was drained or resumed",
			"An operator took the service off this node, or gave it back, or the time of a drain is over. A drain goes before anything the checks say.",
			"\"vouch resume @VOUCH_SERVICE@\" ends a drain."},
		{KindFile, "The state file",
			"The file that carries verdicts and drains over a restart could not be read or written, or can be again. A corrupt one was moved aside. Until it can be written a restart forgets drains, and begins with no verdict.",
			"The text names the file and the cause: permissions, a full disk."},
		{KindTask, "A part of vouch failed",
			"A loop inside vouch failed and was started again, makes no progress, or is not told of changes and polls instead.",
			"If it makes no progress the watchdog restarts vouch, with what is announced unchanged. If it happens again please report it, with the journal of that time."},
	}
}
