//! Does the status page show what `/status` says, to everybody and at every size? In a real Chromium without a screen.
//! Pictures of it stay under the target folder (`tmp/status-page`).

use serde_json::{Value, json};

use crate::rig::{self, Ask, Browser, DOWN, END, ENTER, Gateway, HOME, Origin, RIGHT, TAB, eventually, on};

/// A name that would run something, were it taken for HTML.
const EVIL: &str = "<img/src=x/onerror=alert(1)>";

const TEXT: &str = "\
pools:
  images:
    balance: { key: \"{path}\" }
    health: { probe: { interval: 200ms, timeout: 2s, rise: 2, http: { path: /healthz } }, panic: fail }
    origins: [ { address: $a, name: a }, { address: $b, name: b, weight: 3 }, { address: $c, name: EVIL } ]
  \"<b>api</b>\":
    balance: { algorithm: p2c }
    origins: [ { address: $d, name: d } ]
routes:
  - { match: { path: { prefix: /api/ } }, pool: \"<b>api</b>\" }
  - { pool: images }
";

/// What the page shows, as text.
const SHOWN: &str = "
    const text = (node) => node?.textContent ?? null;
    const all = (query, read) => [...document.querySelectorAll(query)].map(read);
    return {
      said: window.said, title: document.title, headline: text(document.querySelector('#headline')), facts: text(document.querySelector('#facts')),
      verdict: document.querySelector('#verdict').className, problems: all('#problems li', text),
      charts: all('#all .chart b, #pool-charts .chart b', text), tabs: all('#tabs button > span:last-child', text),
      pool: document.querySelector('#pool').getAttribute('aria-label'),
      ring: document.querySelector('#ring svg')?.getAttribute('aria-label') ?? null, slots: all('#ring .slot title', text),
      pairs: Object.fromEntries(all('#pool-facts > div', (pair) => [text(pair.firstChild), text(pair.lastChild)])),
      rows: all('#rows tr', (row) => Object.fromEntries([...row.children].map((cell) => [cell.dataset.column, text(cell)]))),
      states: all('#rows .state', text), meters: all('#rows .meter', (meter) => Number(meter.getAttribute('aria-valuenow'))),
      changes: all('#changes li', text), texts: all('#texts tr', (row) => [...row.children].map(text)),
      images: document.images.length, wide: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    };";

/// Keeps what the page was told last: time goes on before somebody else could ask for the same.
const OVERHEARD: &str = "
    const json = Response.prototype.json;
    Response.prototype.json = async function () {
      const said = await json.call(this);
      window.said = structuredClone(said);
      return said;
    };";

fn start() -> (Vec<Origin>, Gateway) {
    let origins = ["a", "b", "c", "d", "e"].map(rig::origin);
    origins[3].script([on("/api/bad").answer(500)]);
    let gateway = rig::gateway(&TEXT.replace("EVIL", &format!("\"{EVIL}\""))).origins(&origins).start();
    (origins.into(), gateway)
}

fn ask(n: u64) -> Ask {
    match n % 10 {
        0 => Ask::get("/api/bad"),
        1 | 2 => Ask::get(&format!("/api/{n}")),
        _ => Ask::get(&format!("/img/{}", n % 1000)),
    }
}

fn open(gateway: &Gateway) -> Browser {
    let mut browser = rig::browser();
    browser.looks(1280, 900, false);
    browser.before_each_page(OVERHEARD);
    browser.open(&format!("http://{}/", gateway.admin));
    browser
}

/// A figure as people read it, and what its digits leave open: `12.3 %` is 12.3, `4.2 ms` is 0.0042, `0.29 of 1` is 0.29,
/// a dash is none.
fn figure(text: &str) -> Option<(f64, f64)> {
    let text = text.replace(',', "");
    let (first, unit) = text.split_once([' ', '/']).unwrap_or((&text, ""));
    let unit = if unit.starts_with("ms") { 0.001 } else { 1.0 };
    if let Some(most) = first.strip_prefix('<') {
        return Some((0.0, most.parse().ok()?));
    }
    let digits = first.split_once('.').map_or(0, |(_, digits)| digits.len());
    let number: f64 = first.parse().ok()?;
    Some((number * unit, 0.51 * unit * 0.1_f64.powi(i32::try_from(digits).ok()?)))
}

/// Is it this number, as far as its digits go?
fn reads(shown: &Value, said: &Value, times: f64) -> bool {
    match (shown.as_str().and_then(figure), said.as_f64()) {
        (Some((shown, slack)), Some(said)) => (shown - said * times).abs() <= slack,
        (shown, said) => shown.is_none() && said.is_none(),
    }
}

/// Where the page shows something else than `/status` says.
#[derive(Default)]
struct Differences(Vec<String>);

impl Differences {
    fn between(shown: &Value, status: &Value, pool: &str) -> Vec<String> {
        let mut all = Self::default();
        let said = &status["pools"][pool];
        for (name, origin) in said["origins"].as_object().unwrap() {
            match shown["rows"].as_array().unwrap().iter().find(|row| is_named(row, name)) {
                Some(row) => all.of_an_origin(name, row, origin),
                None => all.0.push(format!("no row of {name}")),
            }
        }
        all.of_the_pool(&shown["pairs"], said);
        all.of_charts(shown["charts"].as_array().unwrap(), [&status["recent"], &said["recent"]]);
        all.of_texts(shown["texts"].as_array().unwrap(), status["config"]["history"].as_array().unwrap());
        all.0
    }

    fn same(&mut self, what: &str, is: bool, shown: &Value, said: &Value) {
        if !is {
            self.0.push(format!("{what}: shown {shown}, said {said}"));
        }
    }

    fn of_an_origin(&mut self, name: &str, row: &Value, origin: &Value) {
        let state = origin["state"].as_str().unwrap();
        self.same(name, row["state"].as_str().unwrap().contains(state), &row["state"], &origin["state"]);
        for (column, said, times) in [
            ("weight", &origin["weight"]["effective"], 1.0),
            ("share", &origin["share"], 100.0),
            ("served", &origin["served"], 100.0),
            ("in_flight", &origin["in_flight"], 1.0),
            ("rate", &origin["rate"], 1.0),
            ("errors", &origin["error_ratio"], 100.0),
            ("p50", &origin["p50"], 1.0),
            ("p99", &origin["p99"], 1.0),
        ] {
            self.same(&format!("{column} of {name}"), reads(&row[column], said, times), &row[column], said);
        }
        let probe = origin["last_probe"]["result"].as_str().unwrap_or("–");
        self.same(name, row["probe"].as_str().unwrap().contains(probe), &row["probe"], &origin["last_probe"]);
    }

    fn of_the_pool(&mut self, shown: &Value, said: &Value) {
        for (label, said, times) in [
            ("Tries a second", &said["rate"], 1.0),
            ("Failed tries", &said["error_ratio"], 100.0),
            ("p50 / p99", &said["p50"], 1.0),
            ("Moved by the last change", &said["ring"]["moved_ratio"], 100.0),
            ("Keys lately", &said["keys"]["distinct"], 1.0),
        ] {
            self.same(label, reads(&shown[label], said, times), &shown[label], said);
        }
        let fingerprint = &said["ring"]["fingerprint"];
        self.same("ring", shown["Ring"] == *fingerprint, &shown["Ring"], fingerprint);
    }

    /// Three of all requests, three of the pool: what the last step counted, by the second.
    fn of_charts(&mut self, shown: &[Value], said: [&Value; 2]) {
        let series = said.into_iter().flat_map(|recent| ["requests", "errors", "retries"].map(|one| &recent[one]));
        assert_eq!(shown.len(), 6);
        for (shown, series) in shown.iter().zip(series) {
            let last = series.as_array().unwrap().last().cloned().unwrap_or(Value::Null);
            self.same("chart", reads(shown, &last, 0.2), shown, series);
        }
    }

    fn of_texts(&mut self, shown: &[Value], said: &[Value]) {
        self.same("texts", shown.len() == said.len(), &json!(shown), &json!(said));
        for (shown, said) in shown.iter().zip(said) {
            let digest = said["digest"].as_str().unwrap().starts_with(shown[4].as_str().unwrap());
            let version = said["version"].to_string();
            self.same("text", digest && shown[0] == *version, shown, said);
        }
    }
}

fn is_named(row: &Value, name: &str) -> bool {
    let shown = row["name"].as_str().unwrap_or_default();
    shown.strip_prefix(name).is_some_and(|rest| rest.starts_with(' '))
}

/// What the page shows; it is what it was told, and that is what `/status` says.
fn agrees(browser: &mut Browser, gateway: &Gateway, pool: &str) -> Value {
    let attempts = |status: &Value| {
        let of = |(name, origin): (&String, &Value)| (name.clone(), origin["requests"].clone());
        status["pools"][pool]["origins"].as_object().unwrap().iter().map(of).collect::<Vec<_>>()
    };
    let is_told = |shown: &Value| attempts(&shown["said"]) == attempts(&gateway.status());
    let shown = await_shown(browser, "what was counted", is_told);
    let differences = Differences::between(&shown, &shown["said"], pool);
    assert!(differences.is_empty(), "the page shows something else than /status says:\n{}", differences.join("\n"));
    shown
}

fn await_shown(browser: &mut Browser, what: &str, is: impl Fn(&Value) -> bool) -> Value {
    eventually(what, || Some(browser.script(SHOWN)).filter(&is))
}

#[test]
fn figures_are_those_of_status_and_names_are_text() {
    let (_origins, mut gateway) = start();
    let load = rig::load(gateway.address()).rate(300.0).asking(ask).start();
    eventually("a step ended", || (!gateway.status()["recent"]["requests"].as_array()?.is_empty()).then_some(()));
    let mut browser = open(&gateway);
    await_shown(&mut browser, "the page", |shown| shown["rows"].as_array().is_some_and(|rows| rows.len() == 3));
    for (name, width, dark) in
        [("light", 1280, false), ("dark", 1280, true), ("phone", 360, false), ("phone-dark", 360, true)]
    {
        browser.looks(width, 900, dark);
        let wide = browser.script(SHOWN)["wide"].as_i64().unwrap();
        assert_eq!(wide, 0, "nothing is wider than {width}");
        browser.picture(name);
    }
    browser.looks(1280, 900, false);
    load.stop();
    let shown = agrees(&mut browser, &gateway, "images");
    assert!(figure(shown["pairs"]["Tries a second"].as_str().unwrap()).unwrap().0 > 1.0, "{shown}");
    assert_eq!((&shown["tabs"], &shown["images"]), (&json!(["images", "<b>api</b>"]), &json!(0)), "names are text");
    assert!(shown["rows"].as_array().unwrap().iter().any(|row| is_named(row, EVIL)), "{shown}");
    assert_eq!(shown["slots"].as_array().unwrap().len(), 3, "an arc for each origin");
    // a tenth of all requests fails there
    assert_eq!(shown["verdict"], "verdict bad", "{}", shown["problems"]);
    assert!(shown["problems"].to_string().contains("are 5xx"), "{}", shown["problems"]);

    // a change: one goes, one comes and ramps
    let next = TEXT.replace("{ address: $b, name: b, weight: 3 }", "{ address: $e, name: e }");
    gateway.change(&next.replace("EVIL", &format!("\"{EVIL}\"")));
    gateway.await_state("images", "e", "ramping");
    let is_told = |shown: &Value| shown["states"].to_string().contains("ramping") && shown["texts"][1].is_array();
    let shown = await_shown(&mut browser, "it ramps", is_told);
    let [part, far] =
        [shown["meters"][0].as_f64().unwrap(), gateway.origin("images", "e")["progress"].as_f64().unwrap()];
    assert!((part / 100.0 - far).abs() < 0.2, "{part}% {far}");
    let changes = shown["changes"].to_string();
    assert!(changes.contains("(new)") && changes.contains("(gone)"), "{changes}");
    browser.picture("ramping");
    agrees(&mut browser, &gateway, "images");
    assert_eq!(browser.console(), [""; 0], "nothing went wrong on the way");
}

#[test]
fn it_works_by_keyboard_and_says_when_the_gateway_is_gone() {
    let (_origins, mut gateway) = start();
    let mut browser = open(&gateway);
    await_shown(&mut browser, "the page", |shown| shown["rows"].as_array().is_some_and(|rows| rows.len() == 3));
    let focus = "const e = document.activeElement, style = getComputedStyle(e);
        return [e.id || e.getAttribute('role') || e.closest('th')?.dataset.column || e.tagName,
                style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2];";
    let mut stops = Vec::new();
    while stops.last().is_none_or(|(name, _)| name != "TR") && stops.len() < 40 {
        browser.press(&[TAB]);
        let told = browser.script(focus);
        stops.push((told[0].as_str().unwrap().to_owned(), told[1] == true));
    }
    for wanted in ["A", "pause", "tab", "filter", "only", "share", "TR"] {
        assert!(stops.contains(&(wanted.to_owned(), true)), "{wanted} is reached and seen: {stops:?}");
    }
    let row = "return [...document.querySelectorAll('#rows tr')].indexOf(document.activeElement)";
    for (key, at) in [(DOWN, 1), (END, 2), (HOME, 0)] {
        browser.press(&[key]);
        assert_eq!(browser.script(row), at);
    }
    assert_eq!(browser.script("return document.querySelectorAll('#ring .slot.lit').length"), 1, "its arc is marked");
    browser.script("document.querySelector('[data-column=share] button').focus()");
    browser.press(&[ENTER]);
    assert_eq!(browser.script("return document.querySelector('th[data-column=share]').ariaSort"), "descending");
    assert!(is_named(&browser.script(SHOWN)["rows"][0], "b"), "it has the greatest share");
    browser.script("document.querySelector('[role=tab][aria-selected=true]').focus()");
    browser.press(&[RIGHT]);
    let shown = await_shown(&mut browser, "the other pool", |shown| shown["rows"].as_array().unwrap().len() == 1);
    assert_eq!(shown["pool"], "Pool <b>api</b>");
    browser.script("document.querySelector('#pause').focus()");
    browser.press(&[ENTER]);
    let paused = "return document.querySelector('#pause').ariaPressed + document.querySelector('#updated').textContent";
    assert!(browser.script(paused).as_str().unwrap().starts_with("truepaused, as of "));
    browser.press(&[ENTER]);
    browser.script("document.querySelector('#filter').focus()");
    browser.press(&['z', 'z']);
    assert_eq!(browser.script(SHOWN)["rows"], json!([]), "nobody is called so");
    assert_eq!(browser.console(), [""; 0]);

    gateway.kill();
    let shown = await_shown(&mut browser, "it says so", |shown| shown["headline"] == "The gateway does not answer");
    assert!(shown["title"].as_str().unwrap().starts_with('✕'), "{shown}");
    assert!(shown["problems"].to_string().contains("may be wrong by now"), "{shown}");
    browser.picture("gone");
    gateway.start_again();
    await_shown(&mut browser, "it is back", |shown| shown["headline"] == "All is well");
}

#[test]
fn a_thousand_origins_are_merged_into_arcs_and_found_in_the_table() {
    let everywhere = rig::everywhere("o");
    let port = everywhere.address.port();
    let address = |n: u32| format!("127.2.{}.{}:{port}", n / 250, n % 250 + 1);
    let all: Vec<String> = (0..999).map(address).chain(["127.0.0.1:1".to_owned()]).collect();
    let text = format!(
        "pools: {{ p: {{ balance: {{ key: \"{{path}}\" }}, origins: {all:?} }} }}\nroutes: [ {{ pool: p }} ]\n"
    );
    let gateway = rig::gateway(&text).start();
    gateway.await_state("p", "127.0.0.1:1", "down");
    let mut browser = open(&gateway);
    let is_down = |shown: &Value| shown["states"][0].as_str().is_some_and(|state| state.contains("down"));
    let shown = await_shown(&mut browser, "who is out stands first", is_down);
    assert!(is_named(&shown["rows"][0], "127.0.0.1:1"), "{}", shown["rows"][0]);
    assert!(shown["problems"].to_string().contains("1 of 1,000 origins"), "{}", shown["problems"]);
    assert_eq!(shown["rows"].as_array().unwrap().len(), 100);
    let slots = shown["slots"].as_array().unwrap().len();
    assert!((20..=130).contains(&slots), "{slots} arcs");
    browser.looks(360, 900, false);
    assert_eq!(browser.script(SHOWN)["wide"], 0);
    browser.picture("thousand");
    browser.script("document.querySelector('#more').click()");
    assert_eq!(browser.script(SHOWN)["rows"].as_array().unwrap().len(), 1000);
    browser.script("document.querySelector('#filter').focus()");
    browser.press(&"127.2.3.7:".chars().collect::<Vec<_>>());
    let shown = await_shown(&mut browser, "one is left", |shown| shown["rows"].as_array().unwrap().len() == 1);
    assert!(is_named(&shown["rows"][0], &format!("127.2.3.7:{port}")), "{shown}");
    assert_eq!(browser.console(), [""; 0]);
}

#[test]
fn page_is_shown_under_a_strict_policy_and_to_whoever_asks_by_get() {
    let (_origins, gateway) = start();
    let answer = gateway.admin("GET", "/");
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("text/html; charset=utf-8")));
    let policy = answer.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'; style-src 'sha256-"), "{policy}");
    assert!(policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe"), "{policy}");
    assert_eq!(
        (answer.header("x-content-type-options"), answer.header("x-frame-options")),
        (Some("nosniff"), Some("DENY"))
    );
    assert_eq!(gateway.admin("GET", "/status").header("x-content-type-options"), Some("nosniff"));
    assert_eq!(gateway.admin("POST", "/").status, 405);
    assert!(gateway.admin("HEAD", "/").body.is_empty());
}
