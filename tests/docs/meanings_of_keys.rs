//! What has happened when a command that asks no gateway says this, and what is there to do? And what is never printed.

use super::meanings::Said;

/// By command.
pub(crate) const ABOUT_KEYS: [(&str, &[Said]); 4] = [
    ("Keys, plans and `explain`", KEYS),
    ("Import, manual and completions", FILES),
    ("Names of origins, in the log and in `status`", NAMES),
    ("The demo", DEMO),
];

const KEYS: &[Said] = &[
    (
        "say which pool: --pool …",
        "there are several, and the question is about one",
        "`--pool` with one of those named",
    ),
    (
        "no … \"…\", did you mean \"…\"?",
        "the file has no pool or no origin of that name",
        "the name that is proposed, if it is meant",
    ),
    ("no … \"…\", there is …", "the same; those that there are follow", "one of those"),
    (
        "no pool \"…\" in both files",
        "`plan --pool` compares a pool with itself, and it is in one file or in none",
        "its name; a pool that comes or goes is told of without `--pool`",
    ),
    (
        "…: …; or say which pool: --pool …",
        "by its routes the file sends this URL to no pool, or by a client that was not named",
        "`--client-ip IP`, the host in the URL, the headers and the method of the request; or `--pool`",
    ),
    (
        "the key … needs a client: --client-ip IP",
        "the pool's key is made of the client's address",
        "`--client-ip` with the client's",
    ),
    (
        "pool …: …",
        "its origins are found by DNS, which the command does not ask, so there is no ring to look at",
        "`moorgate status` shows them",
    ),
    ("…: expected http://host/path or /path", "an argument is no URL", "the URL as a client asks for it"),
    (
        "…: …; the gateway answers 400",
        "no origin would see this request: the gateway refuses it for what stands between",
        "the URL; `encoded_slash: allow` of a route, if that is what it says",
    ),
    (
        "the path climbs above the root",
        "more `..` than folders before them; in a line of a log it is skipped",
        "the path; it is an attack, as a rule",
    ),
    ("the path holds %00", "a byte zero in a path, which no route takes", "the same"),
    (
        "the path holds `..` behind an empty segment",
        "`//..` is another path to some servers than to others, so it is not passed on",
        "the path, with one slash",
    ),
    (
        "--assume …: expected ORIGIN=STATE, with up, kept, down or joining, or with overloaded, ramping or draining and \
         perhaps the part of its share, as in ORIGIN=overloaded:40%",
        "the state is none of those, or has a part that it cannot have",
        "as it says",
    ),
    (
        "--in-flight …: expected ORIGIN=COUNT, with 65535 at most",
        "no number behind the last `=`, or too large a one",
        "as it says",
    ),
    ("no header line: …, expected \"name: value\"", "no colon, or a byte that no header takes", "as it says, quoted"),
    ("standard input", "`-` was to be read, and the system does not give it", "what is before the pipe"),
    (
        "none of its … lines can be read; line …: …",
        "the log is not in the format that was expected; what is wrong with the first line follows",
        "`--log-format` with the `log_format` of nginx that wrote it",
    ),
    (
        "it does not match the log format",
        "a line of the log is of another shape; if others match, it is skipped and counted",
        "the same",
    ),
    ("--log-format: …", "the format itself cannot be read, for what follows", "as one of the next lines says"),
    (
        "it names no path: $request, $request_uri or $uri",
        "lines of this format do not say what was asked for",
        "a log with one of them",
    ),
    (
        "$… and $… have nothing between them",
        "where one variable ends and the next begins cannot be told",
        "a log with a blank between them",
    ),
    (
        "a $ without a name",
        "a `$` with no variable behind it",
        "the format as nginx has it, in single quotes for the shell",
    ),
    ("unknown escape=…, expected default, json or none", "a word that nginx does not know", "as it says"),
    (
        "expected a quoted text at …",
        "a whole `log_format` directive has its text in quotes",
        "the directive as nginx has it",
    ),
    ("no end of the text …", "a quote is opened and not closed", "the directive as nginx has it"),
    (
        "… mistakes with the origins of the other file",
        "`plan` puts the origins of one file where the other finds them by DNS, and with them it cannot be served",
        "`moorgate check` of both files; compare two that both name their origins",
    ),
    ("no key \"…\" in …; …", "`explain` knows the section, and no such key in it", "one of the keys that follow"),
    ("no section for \"…\", did you mean \"…\"?", "`explain` knows no such path", "the one that is proposed"),
    (
        "no section for \"…\"; `moorgate explain` without a key lists those at the top",
        "the same, and nothing is near",
        "begin at the top",
    ),
];

const FILES: &[Said] = &[
    (
        "…:…: …",
        "`import`: a file of nginx cannot be read there: what is wrong follows, often a missing `;` or `}`, or a file that is \
         included and missing",
        "`nginx -t` says it as well; import on the machine where all that is included lies",
    ),
    ("cannot write …", "`import --output` cannot write there", "the folder, its rights and room"),
    ("…: no such folder", "`man --to` writes into a folder that exists", "`mkdir -p` it"),
];

const NAMES: &[Said] = &[
    ("there is no such name", "DNS says that the name does not exist", "the name in the file; the zone"),
    (
        "the name has no such record",
        "the name exists, and has no address (A, AAAA), or no SRV record where those are asked for",
        "the records of the name",
    ),
    (
        "no answer: …",
        "no name server answered in time, or none could say; origins stay as they are",
        "the servers of the file, or of /etc/resolv.conf, and the way to them",
    ),
];

const DEMO: &[Said] = &[
    (
        "--grow-to … is no growth from --origins …",
        "it ends with no more origins than it begins with",
        "a larger number",
    ),
    (
        "not over within …: this machine may be too busy for --rate …",
        "the whole took far longer than its steps are to last",
        "a lower `--rate`, fewer `--keys`",
    ),
    (
        "… of the first … requests failed",
        "before anything happened, requests were not answered: the machine is too busy, or something between takes them",
        "a lower `--rate`; look for a firewall on loopback",
    ),
    ("… cannot listen on …", "an origin of the demo got no port on loopback in time", "again; the machine's load"),
    ("… does not end", "an origin of the demo was to die, and did not in time", "again; the machine's load"),
    ("cannot create …", "no folder for its files in the folder of temporary files", "TMPDIR, its rights and room"),
    ("cannot write the configuration", "its file in that folder cannot be written", "room in TMPDIR"),
    ("cannot replace the configuration", "the same, of the file with more origins", "room in TMPDIR"),
    ("the gateway does not start within …", "the machine is too busy", "again, with less beside it"),
    (
        "the gateway is not ready within …",
        "the same, or its probes do not reach origins on loopback",
        "again; a firewall",
    ),
    ("the gateway ended at once", "it left before it served, without a reason: it was told to", "again"),
    ("the gateway panicked", "a fault of the gateway's own", "report it, with the lines before"),
    ("POST /reload", "the demo's gateway did not answer its reload", "again; the machine's load"),
    ("the reload was answered with …: …", "the demo's gateway refuses more origins", "report it, with the line"),
    ("GET /status", "its status was not answered, or is not what the demo can read", "again; the machine's load"),
    ("GET /metrics", "the same, of its metrics", "again; the machine's load"),
];

/// A text, and why nobody reads it as it stands.
pub(crate) const UNSEEN: &[(&str, &str)] = &[
    ("…", "only passes on: a wrong argument told whole, the mistakes of a file, the reason of a running process"),
    ("…, …", "a mistake of a file, which `check` tells with its place: the first tables of this page"),
    (
        "process.access_log.format: …",
        "such a format is a mistake of the file, which is told with its place before the log is opened",
    ),
    ("before it said who it is", "part of a reason why an upgrade failed: when"),
    ("before it was ready", "the same"),
    ("before it was told to go", "the same"),
    ("before it accepted anybody", "the same"),
    ("before it had served for long enough", "the same"),
    ("did you mean \"…\"?", "part of what `explain` says of a key that is not there"),
    ("its keys are …", "the same"),
    ("process …", "the name of a process in other texts"),
    ("nothing is in the way", "the reason against an upgrade when there is none; nobody asks for it then"),
    ("the new process declined", "a process that declines says why, and that is what is told"),
    ("prepared twice", "would be a fault of the gateway's own: a process that takes over prepares once"),
    ("completions are text", "what is generated is text always"),
    ("a page is text", "the same"),
    ("the gateway does not listen", "the demo's own file has a listener"),
    ("the gateway has no admin address", "the demo's own file has one"),
    ("/status shows no origins", "the demo's own pool has some"),
    ("there is no such origin", "the demo's steps name only those that it made"),
    ("the target is malformed", "a client's request, answered with 400: `bad_request` in the access log"),
    ("the Host is missing", "the same"),
    ("there is more than one Host", "the same"),
    ("the Host is malformed", "the same"),
    ("the end of the body is not told once", "the same"),
    ("the Connection header names what it may not", "the same"),
    ("where the prefix ends cannot be told", "the same, of a route that takes a prefix away"),
    ("the header is too large", "a client's request, answered with 431: `header_too_large` in the access log"),
    ("the header has too many lines", "the same"),
    ("the target is too long", "a client's request, answered with 414: `uri_too_long` in the access log"),
    ("the client's address has no access", "a client's request, answered with 403: `denied` in the access log"),
];
