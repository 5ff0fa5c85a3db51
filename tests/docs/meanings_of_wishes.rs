//! What has happened when a command that speaks to a gateway, or one that starts one, says this, and what is there to do?

use super::meanings::Said;

/// By what is wanted.
pub(crate) const ABOUT_WISHES: [(&str, &[Said]); 5] = [
    ("Asking the gateway that runs", ASKING),
    ("Reload, confirm and rollback", CHANGING),
    ("Starting", STARTING),
    ("Upgrading: why nothing changed", UPGRADING),
    ("Taking over: what the new process says", TAKING),
];

const ASKING: &[Said] = &[
    (
        "control socket ……: …; …",
        "nobody could be reached at this path; a file in brackets is the one that names it",
        "start the gateway; name its own file (`--config`) or path (`--socket`); for its rights, be root or the gateway's user",
    ),
    (
        "admin address …: …; is the gateway running?",
        "nobody accepts at this address",
        "start the gateway, or name its address with `--admin`",
    ),
    (
        "… at the admin address … somebody answers: --admin … asks there",
        "the control socket of the line before was not reached; what changes something is not sent to another place unasked",
        "if the one at that address is meant, the same command with `--admin`",
    ),
    (
        "… nobody answers at the admin address … either",
        "neither the control socket of the line before nor the admin address was reached",
        "start the gateway, or name another file, socket or address",
    ),
    (
        "control_socket and admin are both off: only signals reach the gateway, such as HUP",
        "the file gives commands no way in",
        "`kill -HUP PID` reloads, TERM drains; or give it a `process.control_socket`, which takes a restart",
    ),
    (
        "no control socket: neither root nor XDG_RUNTIME_DIR; name one with --socket or --admin",
        "the file names no socket, and this user has no default place for one",
        "`--socket PATH` or `--admin ADDRESS`, or be root",
    ),
    (
        "the gateway hung up",
        "it was reached, and what is asked could not be sent to it",
        "ask again; its log, if it is so each time",
    ),
    (
        "no answer in time",
        "it was reached and asked, and did not answer within 40 s (95 s of an upgrade), or the connection broke",
        "its log; look with `moorgate status` whether it was done before you ask again",
    ),
    (
        "the gateway hung up before it had answered",
        "it closed the connection: it left or crashed meanwhile",
        "`moorgate status`, and its log",
    ),
    ("the gateway hung up in the middle of its answer", "the same, later", "`moorgate status`, and its log"),
    (
        "the answer is no HTTP",
        "somebody else listens at this socket or address",
        "name the right one with `--socket` or `--admin`",
    ),
    (
        "the answer is no JSON",
        "somebody answers in HTTP who is no Moorgate, or one of another version",
        "name the right one; the command and the gateway of the same version",
    ),
    (
        "what it answers to …",
        "the answer is not what this command can read: it asked another version, or no Moorgate",
        "the command and the gateway of the same version",
    ),
    (
        "the gateway answers …: …",
        "a status other than 200, with what it says of it: 404 or 405 is another version or no Moorgate",
        "what it says, and the log of the gateway",
    ),
    (
        "--watch needs a terminal to draw on; …",
        "its input or output is a pipe or a file",
        "`moorgate status` says it once, `--json` says it to programs",
    ),
    ("threads of --watch", "the system gives this command no threads", "limits of processes of this user"),
    (
        "the terminal",
        "the terminal cannot be set up for drawing, or it went away",
        "another terminal, or `moorgate status` without `--watch`",
    ),
];

const CHANGING: &[Said] = &[
    (
        "still joining after …: …",
        "the reload is in force, and these origins have not passed their probes within `--wait`",
        "`moorgate status` says what the probes find; `moorgate rollback`, if it is the change",
    ),
    (
        "configuration … is in force, not … any more",
        "while `reload --wait` waited, another change or a way back came in between",
        "`moorgate status`: which is in force, and why the other ended",
    ),
    (
        "started without a file, so there is nothing to reload",
        "the gateway was started with `--listen` and `--origin`",
        "restart it with a file, if it is to change while it runs",
    ),
    (
        "a change waits: `moorgate confirm` or `moorgate rollback` first",
        "an earlier reload with `--confirm` is not decided yet; an upgrade waits for that too",
        "decide it; by itself it goes back when its time is over",
    ),
    (
        "an upgrade is under way, and until it is over both processes serve what is in force now",
        "a change would reach one of two processes only",
        "again when it is over, as `moorgate status` says",
    ),
    (
        "somebody went back from this text: only `moorgate reload` applies it again",
        "a HUP, the watcher of the file or an upgrade found a text that was rolled back; it stands in the log",
        "put the file right; or `moorgate reload`, if the text is meant after all",
    ),
    (
        "no change waits to be confirmed",
        "none was made with `--confirm`, or its time was over and it went back",
        "`moorgate status`: what is in force",
    ),
    (
        "there is no earlier text to go back to",
        "this is the first text that was served",
        "change the file, and `moorgate reload`",
    ),
    (
        "with the origins that were found: …",
        "origins that DNS names make the configuration one that cannot be; what was served before is. It stands in the log",
        "what is named: the records, or the pool's section",
    ),
    (
        "a defect, see the log",
        "a fault of the gateway's own ended what was asked; requests go on",
        "report it, with what the log says of a panic; `moorgate status` shows what is in force",
    ),
    ("the process is leaving", "the gateway drains, and changes no more", "ask the one that follows it"),
];

const STARTING: &[Said] = &[
    (
        "…; name one with --config",
        "no file was named, and none is at the places where it is looked for, which are named",
        "`--config FILE`",
    ),
    (
        "… …",
        "the same of `moorgate run`: no file is there; the lines below show how to start with one and without",
        "one of these lines",
    ),
    (
        "…: somebody went back from this text; `moorgate reload` applies it again",
        "a start with `--strict`, or the new process of an upgrade, finds what was rolled back in the file",
        "put the file right; or start without `--strict`, which serves the text before, and `moorgate reload`, as before an upgrade",
    ),
    (
        "cannot listen on …: …",
        "a listener of the file cannot be had: taken by another, no right to a port below 1024, or no address of this machine",
        "`ss -ltnp` says who has it; the unit's AmbientCapabilities; the address",
    ),
    (
        "admin address …: …",
        "the same of `process.admin`",
        "who has it: often another gateway with the same file; another address, or `off`",
    ),
    ("admin: …", "the thread that answers commands cannot be started", "limits of processes and open files"),
    (
        "control socket … is in use by …",
        "a gateway that runs has this path",
        "to replace it, `moorgate upgrade`; to run beside it, another `process.control_socket`",
    ),
    (
        "control socket …: there is something else at this path",
        "a file or folder is there that is no socket, so it is not removed",
        "remove it, or name another path",
    ),
    (
        "control socket …: …",
        "it cannot be made, and the file names it: its folder is missing and cannot be made, or its rights do not allow it",
        "the folder and its rights",
    ),
    ("access log …: …", "the file or socket of `process.access_log.path` cannot be opened", "its folder, rights, room"),
    ("access log: no thread to write it: …", "the system gives no thread", "limits of processes of this user"),
    ("tracing: …", "TLS to the collector cannot be prepared by this machine's OpenSSL", "what OpenSSL says of it"),
    ("tracing: no thread to export from: …", "the system gives no thread", "limits of processes of this user"),
    (
        "cannot start the data plane",
        "the threads that serve requests could not be started",
        "what follows it; limits of processes, memory and open files; `process.threads`",
    ),
    (
        "LISTEN_FDS is …; expected the number of sockets",
        "whoever started it says with this variable that it hands over sockets, and not how many",
        "the socket unit, or the script that sets it; without it nothing is taken",
    ),
    (
        "…, which LISTEN_FDS counts, is not open: …",
        "fewer sockets were handed over than it says",
        "the number and the descriptors, from 3 on; systemd does both by itself",
    ),
    (
        "…, which was handed over, …; a listener takes a TCP socket that listens",
        "a socket of the socket unit, of the supervisor or of the process before is of another kind",
        "`ListenStream=` with an address and a port, and no `Accept=yes`",
    ),
    (
        "the supervisor",
        "this process was started by one that does not say what it holds: of another version, or it is gone",
        "restart the supervisor, with the same program",
    ),
    (
        "supervise takes `run`: moorgate supervise -- run --config FILE",
        "it starts no other command",
        "`run` and its arguments behind `--`",
    ),
    (
        "which program is this?",
        "the path of this program cannot be told, so it could not be started again: often no /proc",
        "mount /proc",
    ),
    (
        "cannot supervise",
        "the first process cannot be started, or signals cannot be had",
        "what follows it; rights of the program",
    ),
];

const UPGRADING: &[Said] = &[
    (
        "…; the running process serves on",
        "an upgrade failed for the reason before it, one of those below or an error of the start above; nobody was refused",
        "the reason; then again",
    ),
    ("the process is starting", "it was asked before it serves", "again in a moment"),
    (
        "process 1 ends with everything in its container, so it cannot be followed by another: run it under `moorgate supervise`",
        "the gateway is PID 1",
        "`moorgate supervise` as PID 1, or a new container",
    ),
    (
        "the gateway is part of another command",
        "it is the gateway of `moorgate demo`",
        "name the one that is meant with `--socket` or `--admin`",
    ),
    (
        "there is no control socket to hand over at",
        "`process.control_socket` is off, or it could not be made at the start",
        "give it one, which takes a restart",
    ),
    (
        "the supervisor starts the program it was started from: put the new one in its place",
        "`--binary` was asked of a gateway under `moorgate supervise`",
        "put the program at the supervisor's path, and `moorgate upgrade` without `--binary`",
    ),
    (
        "… still serve what they accepted: no more generations live at once",
        "processes before the running one, which are named, have clients still, and as many as may be are there",
        "wait until they are gone; TERM to one shortens what it has left to `process.drain.timeout`",
    ),
    ("another upgrade is under way", "two were asked for", "wait for it; `moorgate status` shows it"),
    (
        "process … has taken over already",
        "the process that was asked is the old one, and only serves what it has",
        "ask the new one, at the control socket",
    ),
    (
        "…: …",
        "behind the path of a program: the system does not start it; behind the name of a message: what is wrong with that",
        "the path and its rights; else see `the new process sent what is no message`",
    ),
    (
        "… before it had called",
        "the new process ended, or was ended by somebody, before it spoke to the running one",
        "what it printed, in the log of the gateway; `moorgate check` with the new program; its version",
    ),
    ("the new process ended (…)", "the same, with its exit code or signal", "the same"),
    (
        "the sockets cannot be handed over: …",
        "the running process cannot double its sockets, for want of descriptors as a rule",
        "its limit of open files",
    ),
    (
        "the new process … after … s",
        "it did not call within 20 s, or was not done within 75 s, and was ended",
        "what it printed; is the program a Moorgate that knows `--takeover`? the machine's load",
    ),
    (
        "the new process took too long …",
        "it called, and then was silent for too long",
        "its lines in the log; the machine's load; then again",
    ),
    (
        "the new process was gone …",
        "it crashed or was killed on the way",
        "its last lines in the log; memory of the container: for a moment there are two",
    ),
    (
        "the new process said `…` …",
        "it spoke out of turn: its version does another upgrade than this one",
        "a restart in place of an upgrade, or a version between the two",
    ),
    (
        "the new process sent what is no message …: …",
        "the same, or somebody who is no Moorgate called",
        "is the program a Moorgate? a restart in place of an upgrade",
    ),
    ("no message begins with the byte …", "behind one of the two before: what it sent", "the same"),
    ("a message of … bytes", "the same; also a state or a file too large to be handed over", "the same"),
    (
        "this process did not stop accepting in time",
        "the running process was too busy to hand its listeners over",
        "again when there is less load",
    ),
    (
        "stopped accepting …",
        "it stopped when nobody had asked it to: a fault of the gateway's own",
        "report it, with the log; then again",
    ),
    (
        "this process was told to leave",
        "TERM, QUIT or `moorgate drain` came during the upgrade",
        "nothing; start the new one, if there is to be one",
    ),
];

const TAKING: &[Said] = &[
    (
        "cannot take over",
        "`run --takeover` did not get the place of the running process; what follows says why",
        "see below; the running process serves on",
    ),
    (
        "…: …; is the gateway running?",
        "nobody accepts at the control socket that `--takeover` names",
        "its path; without a gateway to take over from, start without `--takeover`",
    ),
    (
        "the running process cannot be talked to: …",
        "the line to it broke, or it is of another user",
        "the same user, or root; then again",
    ),
    (
        "this version cannot go on from what the running process knows",
        "health, shares and counts are told in another form than this version reads; what follows says which",
        "a version between the two; or a restart, which begins without what was learned",
    ),
    ("what was learned is told in format …, and this version reads format …", "the same, by number", "the same"),
    ("what was learned cannot be read: …", "the same, or it was cut off", "again; then a restart"),
    (
        "this version cannot serve the running configuration",
        "what is in force has mistakes for the new version; they follow",
        "put in force what both understand (`moorgate reload`), then upgrade",
    ),
    (
        "the running process takes everything back: …",
        "it serves on, for the reason that follows: see the table before",
        "that reason",
    ),
    (
        "the running process sent what is no message: …",
        "its version does another upgrade than this one, or no Moorgate is there",
        "the path of `--takeover`; a restart in place of an upgrade",
    ),
    ("the running process said `…` when it should not", "the same", "a restart in place of an upgrade"),
    ("the running process took too long", "it did not answer in time", "again when there is less load; its log"),
    (
        "the running process hung up",
        "it refused or left before it had handed over",
        "its log says why; `moorgate status`",
    ),
    (
        "the running process hung up and goes on",
        "the line broke, and it serves still: this one gives way, so that there are not two",
        "its log; then again",
    ),
    ("told to leave", "a signal ended the new process before it served", "nothing, if you sent it"),
];
