//! What has happened when the log says this, and what is there to do? For each warning and error of the log.

/// What is said (`…` for what is different each time), what has happened, what to do.
pub(crate) type Said = (&'static str, &'static str, &'static str);

/// By what they are about.
pub(crate) const MEANT: [(&str, &[Said]); 9] = [
    ("The configuration", CONFIGURATION),
    ("Origins", ORIGINS),
    ("Listening and limits of the system", LISTENING),
    ("The access log", ACCESS_LOG),
    ("Limits that are shared", SHARED),
    ("Tracing", TRACING),
    ("Upgrades", UPGRADES),
    ("The supervisor", SUPERVISOR),
    ("Commands, signals and the service manager", COMMANDS),
];

const CONFIGURATION: &[Said] = &[
    (
        "serving the text that was served last",
        "the file could not be put in force at the start, for what the lines before say; what was served before is",
        "put the file right, then `moorgate reload`",
    ),
    (
        "reload refused, nothing changed: … mistake…",
        "the file has mistakes, each in a line before this one with its place",
        "put them right; `moorgate check` says them as well",
    ),
    (
        "reload refused, nothing changed: more moves than guard.max_moved allows",
        "the change would move more keys at once than the pool's guard allows",
        "change less at once (`moorgate plan` says which step passes), or `moorgate reload --allow-moved`, once",
    ),
    ("pool …: …", "how much the refused change would have moved in this pool", "see the line after it"),
    (
        "refused, nothing changed: …",
        "the wish cannot be met just now, such as a reload while a change waits to be confirmed",
        "`moorgate confirm` or `moorgate rollback` first, if that is what it says",
    ),
    (
        "reload failed, nothing changed: …",
        "the file is right, and something it needs could not be had",
        "what the line says: a file, a socket, memory",
    ),
    (
        "rolled back: configuration … is in force: …",
        "somebody asked to go back, and it was done",
        "the file still says the other: put it right, or reload to try again",
    ),
    (
        "reverted: configuration … is in force: …",
        "a change went back by itself",
        "see why in the line before; the file still says the other",
    ),
    (
        "going back by itself: …",
        "a change that had to be confirmed was not in time, or what it did alone broke the pool's guard",
        "look at the origins that were new in it; then reload again",
    ),
    (
        "…; it is as it was before",
        "an origin that replaces others was not proven by its probes in time, so they stay",
        "`moorgate status`: what the probes of the new ones say; then reload again",
    ),
    (
        "…; nothing goes back for that, and nothing grows meanwhile",
        "while a change waits, the pool as a whole does badly, old origins too: the change alone is not to blame",
        "look for a cause that all share; newcomers grow on when it is over",
    ),
    (
        "…: …; a start without its file would not serve what is in force now",
        "the copy in `process.state` cannot be written",
        "room and rights of that folder",
    ),
    (
        "going on from what was known a moment ago: …",
        "after an upgrade the last word of the process before did not come: states of origins may be some seconds old",
        "nothing; probes put it right",
    ),
];

const ORIGINS: &[Said] = &[
    (
        "pool …: short of origins",
        "more origins are due out than `min_healthy` allows: some serve though they look bad",
        "`moorgate status`: why each is out; most often they share a cause",
    ),
    (
        "held up for …: what was seen of origins meanwhile does not count",
        "the gateway itself stood still: no processor, or the machine paused",
        "load of the machine, limits of the container, steal time",
    ),
    (
        "pool …: …: …; its origins stay as they are",
        "the name of the pool's origins could not be resolved, or led nowhere",
        "ask the DNS server for it; `process.resolver`",
    ),
    (
        "…: …; its address stays as it is",
        "the name of one origin could not be resolved again",
        "ask the DNS server for it",
    ),
    (
        "pool …: origin … closes idle connections after … (its Keep-Alive), and keepalive_timeout is …: a request may meet the close; set pools.….connections.keepalive_timeout to …, or let the origin keep them for longer",
        "the origin closes kept connections before the gateway does",
        "as it says",
    ),
];

const LISTENING: &[Said] = &[
    (
        "…: cannot accept: …; trying again",
        "the system gave no connection, most often for want of descriptors",
        "`ulimit -n`, LimitNOFILE; `moorgate_connections`",
    ),
    ("…: cannot accept: …", "a listener could not be used at all", "what the line says; then start it again"),
    (
        "…: who connects just now may be reset: …",
        "leaving, the kernel did not let the listener turn newcomers away one by one",
        "nothing; whoever balances before it should have seen it leave by `/readyz`",
    ),
    (
        "… (…) was handed over, and no listener has that address: closed",
        "the service manager passed on a socket that the file does not name",
        "the same address in the socket unit and in `process.listeners`",
    ),
    (
        "… (…) was handed over for IPv6 alone: nobody serves IPv4 there",
        "the socket passed on takes no IPv4",
        "`BindIPv6Only=both` in the socket unit, or a socket for IPv4 beside it",
    ),
    (
        "max_connections … is more than the … that … open files allow",
        "each client may need two descriptors, and there are not as many",
        "raise the limit of open files, or write less",
    ),
    (
        "max_connections … is … here: … open files allow no more",
        "less connections of clients are taken than was written",
        "raise the limit of open files",
    ),
    (
        "the limit of open files stays …: …",
        "it could not be raised to what the hard limit allows",
        "set it where the process is started",
    ),
    (
        "… open files allow no more than … connections of clients: …",
        "the limit of open files is low",
        "raise it: `ulimit -n`, LimitNOFILE",
    ),
];

const ACCESS_LOG: &[Said] = &[
    ("access log: local times are UTC: …", "the machine's time zone is not known", "TZ, or /etc/localtime"),
    (
        "access log: … cannot be opened again (…); the old file stays in use",
        "told by USR1, the file at this path could not be opened",
        "rights and room of its folder; then USR1 again",
    ),
    (
        "access log: … cannot be written (…); lines are kept while there is room",
        "the disk is full, or who reads the pipe does not",
        "room, or the reader; requests go on",
    ),
    (
        "access log: … is written again; … lines were lost since the start",
        "it is over, and that many lines were dropped",
        "nothing; `moorgate_access_log_dropped_total` counts them",
    ),
    (
        "access log: … lines were lost at exit, … took nothing",
        "the last lines could not be written before the process left",
        "as for the line about writing",
    ),
];

const SHARED: &[Said] = &[(
    "redis …: …; shared limits are counted here until it is back",
    "the Redis of a shared limit does not answer",
    "the Redis, or the network; until then each gateway counts for itself",
)];

const TRACING: &[Said] = &[
    (
        "tracing: … does not take spans (…); they are kept while there is room",
        "the collector is gone, slow, or refuses what it gets; requests go on",
        "the collector and its address; what it says",
    ),
    (
        "tracing: … takes spans again; … were lost since the start",
        "it is over, and that many spans were dropped",
        "nothing",
    ),
    (
        "tracing: … spans were lost at exit, … did not take them",
        "the last spans could not be handed over before the process left",
        "as for the line about a collector that does not take them",
    ),
];

const UPGRADES: &[Said] = &[
    (
        "upgrade failed, nothing changed: …",
        "the next process did not come up, or could not take over; this one serves on",
        "what it says, most often its own check of the file; then upgrade again",
    ),
    (
        "nothing is handed over: …",
        "the process that asked was turned away before it had anything",
        "what it says; start it again as it should be",
    ),
    (
        "handoff refused: …",
        "a process asked to take over while another was about to, or had done so",
        "wait for the first",
    ),
    ("handoff: …", "the socket by which processes hand over failed", "the control socket's folder; upgrade again"),
    ("handoff: no thread: …", "the system gave no thread", "limits of processes and memory"),
    ("upgrade: no thread: …", "the system gave no thread", "limits of processes and memory"),
    (
        "handoff: somebody called and spoke something else",
        "something that is no gateway connected to the socket for upgrades",
        "find out who; nothing was given away",
    ),
    (
        "the new process … does not end by itself: killed",
        "an upgrade was called off, and the new process hung",
        "its own log",
    ),
    ("not taking over: …", "this new process was told not to; the one before serves on", "what it says"),
    ("giving way: …", "this process had taken over and leaves again; the one before serves on", "what it says"),
    (
        "process …: what it counted is lost: …",
        "the counters of the process before did not come: metrics begin at what is known",
        "nothing; rates look lower for a moment",
    ),
    (
        "… connections cut after …",
        "the time to leave was over, and they were not",
        "longest usual answer against `drain.timeout`",
    ),
];

const SUPERVISOR: &[Said] = &[
    (
        "process … ended with … after …",
        "the serving process crashed, or was killed; the next is started",
        "its last lines; memory (137 is a kill, often for want of it)",
    ),
    (
        "starting again in …; … sockets are held meanwhile",
        "it crashed several times in a row",
        "its own lines: why it does not stay up",
    ),
    (
        "process … does not listen: …",
        "the serving process did not take what the supervisor told it",
        "its state; restart it if it hangs",
    ),
    ("no upgrade: …", "the next process could not be started beside this one", "the program at the supervisor's path"),
    ("… to process …: …", "a signal could not be passed on", "nothing, if the process had ended just then"),
    (
        "no descriptor for what the supervisor holds: …",
        "a socket could not be handed to the supervisor for safe keeping",
        "limits of open files; a crash now would refuse clients for a moment",
    ),
    (
        "no memory for the text last served: …",
        "the supervisor could not be given the text in force",
        "memory; a crash now would need the file",
    ),
    (
        "the supervisor does not listen: …",
        "the process could not tell the supervisor what it serves",
        "the supervisor's own lines",
    ),
    ("the service manager was not told …: …", "NOTIFY_SOCKET did not take a message", "the unit's NotifyAccess"),
];

const COMMANDS: &[Said] = &[
    (
        "no control socket: …",
        "commands cannot reach this process by its socket",
        "rights of the folder, or another gateway that has it; `--admin` reaches it as well",
    ),
    (
        "the control socket had been removed: it is made anew",
        "somebody removed the file",
        "find out who; cleaning of /run or /tmp",
    ),
    (
        "the control socket had been removed, and cannot be made anew: …",
        "the same, and its folder is gone or not ours",
        "the folder and its rights",
    ),
    ("control socket …: cannot be removed: …", "leaving, the file could not be removed", "remove it, if nothing runs"),
    (
        "the admin thread had panicked",
        "a fault of the gateway's own on the admin address; requests go on",
        "report it, with the lines before; restart when it suits",
    ),
    ("signals stay blocked: …", "the system did not let signals through", "restart it; HUP and TERM may not be heard"),
    (
        "NOTIFY_SOCKET …: …; the service manager is not told anything",
        "the service manager's socket could not be used",
        "the unit's Type and NotifyAccess",
    ),
    (
        "…: …; beginning again",
        "a task beside the requests (probes, DNS, reloads) failed by a fault of the gateway's own, and was begun anew",
        "report it, with the lines before",
    ),
];
