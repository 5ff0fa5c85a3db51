//! Is every command of every page one that works? Each is typed in a place where the page's own words hold, or stands here with
//! the reason why not.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::page::Page;
use super::place::Place;
use super::said;

/// What is not typed, by its beginning, and why.
const NOT_TYPED: [(&str, &str); 8] = [
    ("make ", "the gate itself, which runs these tests, or builds what they use"),
    ("cargo build", "the tests have what it builds"),
    ("export PATH=", "the tests have their binary before all others"),
    ("systemctl ", "tests have what stands in for a service manager (it::service_manager), not one"),
    ("docker ", "`make image-test` builds the image and runs it"),
    ("certbot ", "asks an authority outside this machine; it::tls_renewed has what follows"),
    ("lego ", "as certbot"),
    ("moorgate status --watch", "draws on a terminal, and has tests of its own"),
];

type Prepare = fn(&mut Place);

/// What a page needs to be there before it is read; a page that is not named here gets [`serving`].
const PLACES: [(&str, Prepare); 8] = [
    ("CONTRIBUTING.md", |_| ()),
    ("README.md", |_| ()),
    ("docs/changing-a-pool.md", growing),
    ("docs/import.md", of_nginx),
    ("docs/observability.md", failing),
    ("docs/placement.md", |_| ()),
    ("docs/plan.md", planning),
    ("docs/running.md", installing),
];

fn typed_pages() -> Vec<Page> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let names = fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let pages = names.filter(|name| name.ends_with(".md")).map(|name| format!("docs/{name}"));
    let pages = pages.chain(["README.md".to_owned(), "CONTRIBUTING.md".to_owned()]);
    // Typed by first_steps.
    let pages = pages.filter(|path| path != "docs/first-steps.md").map(|path| Page::read(&path));
    pages.filter(|page| page.blocks.iter().any(|block| block.typed().is_some())).collect()
}

#[test]
fn every_command_of_every_page_works() {
    let pages = typed_pages();
    assert!(pages.len() > 8, "{} pages were found", pages.len());
    std::thread::scope(|scope| {
        for page in &pages {
            scope.spawn(move || typed(page));
        }
    });
}

fn typed(page: &Page) {
    let mut place = Place::new();
    let prepare = PLACES.iter().find(|(path, _)| *path == page.path).map_or(serving as Prepare, |(_, place)| *place);
    prepare(&mut place);
    for block in &page.blocks {
        if block.text.starts_with("$ moorgate reload --confirm") {
            place.write("conf/moorgate.yaml", &pool(1..4, ""));
            place.prepare("moorgate reload --allow-moved 100%");
            place.write("conf/moorgate.yaml", &pool((1..4).chain([9]), ""));
        }
        place.block(page, block, &NOT_TYPED.map(|(command, _)| command));
    }
    if page.path == "docs/observability.md" {
        counts_attempts(&place);
    }
}

/// A gateway that runs, by the file that commands take when none is named: one origin, which nobody answers for.
const ONE: &str = "\
version: 1
process: { access_log: { path: $HOME/access.log, format: json }, listeners: [ { address: 127.0.0.1:8080 } ] }
pools: { origin: { health: { probe: off }, origins: [ 127.0.0.1:9001 ] } }
";

/// A gateway runs as it would in /etc/moorgate, and one of its requests has failed.
fn serving(place: &mut Place) {
    place.write("etc/moorgate/moorgate.yaml", ONE);
    let home = place.home.path().to_owned();
    fs::create_dir(home.join("etc/moorgate/tls")).unwrap();
    symlink(home.join("etc/moorgate"), home.join("conf")).unwrap();
    starts(place);
    place.prepare("curl -s http://127.0.0.1:8080/lost | grep connect_refused");
    place.prepare("tail -n 9 access.log | grep lost");
}

fn starts(place: &mut Place) {
    place.prepare("moorgate run >gateway.out 2>gateway.log &");
    place.prepare("curl -s http://127.0.0.1:9180/readyz");
}

/// The same, with the log of another day beside it.
fn failing(place: &mut Place) {
    place.write("conf/moorgate.yaml", ONE);
    starts(place);
    let line = |request: u32, addresses: &str, statuses: &str, times: &str| {
        format!(
            "192.0.2.7 [30/Nov/2026:12:00:00 +0000] \"GET /{request} HTTP/1.1\" 200 www.example.com/{request} {addresses} {statuses} \
             {times} 0.500 -\n"
        )
    };
    let (one, two) = ("10.20.1.11:8080", "10.20.1.12:8080");
    let lines = [
        line(1, one, "200", "0.250"),
        line(2, &format!("{one}, {two}"), "502, 200", "0.125, 0.250"),
        line(3, two, "200", "0.250"),
        line(4, one, "200", "0.500"),
    ];
    place.prepare("rm -f access.log");
    fs::write(place.home.path().join("access.log"), lines.concat()).unwrap();
}

/// What the page's commands make of that log.
fn counts_attempts(place: &Place) {
    let printed: Vec<&str> = place
        .record
        .iter()
        .filter(|(command, _)| command.contains("awk"))
        .map(|(_, printed)| printed.as_str())
        .collect();
    let tries = "10.20.1.11:8080 200 2 0.750\n10.20.1.11:8080 502 1 0.125\n10.20.1.12:8080 200 2 0.500\n";
    assert_eq!(printed, [tries, "0.2500\n"]);
}

/// A pool of those. Their names are those of the page; nobody is asked there.
fn pool(origins: impl IntoIterator<Item = usize>, guard: &str) -> String {
    let names = origins.into_iter().map(|n| format!("{{ name: \"10.0.0.{n}:80\", address: \"127.0.0.1:{n}\" }}"));
    let names = names.collect::<Vec<_>>().join(", ");
    format!(
        "version: 1\nprocess: {{ listeners: [ {{ address: 127.0.0.1:8080 }} ] }}\npools:\n  origin: {{ health: {{ probe: off }}, \
         {guard}origins: [ {names} ] }}\n"
    )
}

/// A pool of eight is served, and its file has twelve by now.
fn growing(place: &mut Place) {
    place.write("conf/moorgate.yaml", &pool(1..9, ""));
    starts(place);
    place.write("conf/moorgate.yaml", &pool(1..13, "guard: { max_moved: 20% }, "));
}

/// Two files, a day's log, a list of keys, and the gateway that serves the first of the files.
fn planning(place: &mut Place) {
    place.compare = said::is_alike;
    let images = |origins: std::ops::Range<usize>, guard: &str| {
        let names = origins.map(|n| format!("{{ name: \"10.20.1.{n}:8080\", address: \"127.0.0.1:{n}\" }}"));
        let names: Vec<_> = names.collect();
        format!(
            "version: 1\nprocess: {{ listeners: [ {{ address: 127.0.0.1:8080 }} ] }}\npools:\n  images: {{ health: {{ probe: off }}, \
             {guard}origins: [ {} ] }}\n",
            names.join(", ")
        )
    };
    place.write("before.yaml", &images(11..19, ""));
    place.write("after.yaml", &images(11..23, "guard: { max_moved: 25% }, "));
    place.write("conf/moorgate.yaml", &images(11..19, ""));
    let (mut log, mut keys) = (String::new(), String::new());
    for n in 0..20_000_u32 {
        // Some are asked for far more often than others, and a tenth with a time stamp.
        let image = n.wrapping_mul(2_654_435_761) % 2_000 % (1 + n % 2_000);
        let stamp = if n % 10 == 0 { format!("?t={n}") } else { String::new() };
        let uri = format!("img.example.com/{image}.jpg{stamp}");
        writeln!(
            log,
            "192.0.2.7 [30/Nov/2026:12:00:00 +0000] \"GET /{image}.jpg{stamp} HTTP/1.1\" 200 {uri} - - - 0.001 -"
        )
        .unwrap();
        writeln!(keys, "https://{uri}").unwrap();
    }
    fs::write(place.home.path().join("access.log"), log).unwrap();
    fs::write(place.home.path().join("keys.txt"), keys).unwrap();
    starts(place);
    place.prepare("curl -s 'http://127.0.0.1:8080/[1-100].jpg'");
}

/// The file of nginx that the page shows later.
fn of_nginx(place: &mut Place) {
    let page = Page::read("docs/import.md");
    let file = page.blocks.iter().find(|block| block.language == "nginx").unwrap();
    place.write("etc/nginx/nginx.conf", &file.text);
}

/// A clone with a binary and a configuration in it.
fn installing(place: &mut Place) {
    place.write("moorgate.yaml", ONE);
    let home = place.home.path();
    symlink(Path::new(env!("CARGO_MANIFEST_DIR")).join("docker"), home.join("docker")).unwrap();
    symlink(env!("CARGO_BIN_EXE_moorgate"), home.join("moorgate")).unwrap();
    for folder in ["etc/systemd/system", "usr/local/bin"] {
        fs::create_dir_all(home.join(folder)).unwrap();
    }
}
