//! A real browser without a screen: Chromium, driven by chromedriver over plain HTTP as WebDriver describes it.
//!
//! The session is ended when this is dropped, and what is left of the group of chromedriver killed, the browser included;
//! its profile is a folder of its own.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::client::{Ask, Client};
use super::process::Process;
use super::{PATIENCE, ports, within};

/// A running browser with one page.
pub(crate) struct Browser {
    driver: Client,
    session: String,
    #[allow(dead_code, reason = "held for their Drop")]
    held: (Process, TempDir),
}

/// Keys that have no character, as WebDriver writes them.
pub(crate) const TAB: char = '\u{e004}';
pub(crate) const ENTER: char = '\u{e007}';
pub(crate) const END: char = '\u{e010}';
pub(crate) const HOME: char = '\u{e011}';
pub(crate) const RIGHT: char = '\u{e014}';
pub(crate) const DOWN: char = '\u{e015}';

/// Starts one.
pub(crate) fn browser() -> Browser {
    for _ in 0..10 {
        let port = ports::listener().unwrap().local_addr().unwrap().port();
        let folder = TempDir::new().unwrap();
        let output = folder.path().join("output");
        let mut command = Command::new("chromedriver");
        command.arg(format!("--port={port}")).stdin(Stdio::null()).stdout(Stdio::null());
        // what the browser leaves behind goes with the folder
        command.env("TMPDIR", folder.path()).env("HOME", folder.path());
        let found = Command::new("chromedriver").arg("--version").stdout(Stdio::null()).status();
        assert!(found.is_ok(), "missing: chromedriver; on Debian: sudo .ci/needs chromium");
        let mut process = Process::start("chromedriver", &mut command, &output);
        let mut driver = Client::new(([127, 0, 0, 1], port).into());
        let ready = within(PATIENCE, || match process.wait(Duration::ZERO) {
            Some(_) => Some(false),
            None => driver.send(&driven("GET", "/status")).is_ok_and(|answer| answer.status == 200).then_some(true),
        });
        assert!(ready.is_some(), "chromedriver does not answer: {}", process.output());
        if ready == Some(true) {
            return Browser::new(driver, process, folder);
        }
    }
    panic!("ten times somebody else took the port")
}

/// It answers to nobody who asks for another host.
fn driven(method: &str, path: &str) -> Ask {
    Ask::new(method, path).header("Host", "127.0.0.1")
}

impl Browser {
    fn new(driver: Client, process: Process, folder: TempDir) -> Self {
        let mut arguments: Vec<String> = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            "--disable-crash-reporter",
        ]
        .map(str::to_owned)
        .into();
        arguments.push(format!("--user-data-dir={}", folder.path().join("profile").display()));
        let wanted = json!({ "browserName": "chrome", "goog:chromeOptions": { "args": arguments },
            "goog:loggingPrefs": { "browser": "ALL" } });
        let mut browser = Self { driver, session: String::new(), held: (process, folder) };
        let made = browser.command("POST", "/session", &json!({ "capabilities": { "alwaysMatch": wanted } }));
        made["sessionId"].as_str().expect("a session").clone_into(&mut browser.session);
        browser
    }

    fn command(&mut self, method: &str, path: &str, body: &Value) -> Value {
        let answer = self.try_command(method, path, body);
        let answer = answer.unwrap_or_else(|error| panic!("{method} {path}: {error}"));
        answer.unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }

    fn try_command(&mut self, method: &str, path: &str, body: &Value) -> std::io::Result<Result<Value, Value>> {
        let ask = driven(method, path).header("Content-Type", "application/json");
        let ask = if method == "POST" { ask.body(body.to_string()) } else { ask };
        let answer = self.driver.send(&ask)?;
        let mut told: Value = serde_json::from_slice(&answer.body)?;
        let value = told["value"].take();
        Ok(if answer.status == 200 { Ok(value) } else { Err(value) })
    }

    fn ask(&mut self, path: &str, body: &Value) -> Value {
        let path = format!("/session/{}{path}", self.session);
        self.command("POST", &path, body)
    }

    /// Every page runs this before its own scripts.
    pub(crate) fn before_each_page(&mut self, script: &str) {
        self.protocol("Page.addScriptToEvaluateOnNewDocument", &json!({ "source": script }));
    }

    pub(crate) fn open(&mut self, url: &str) {
        self.ask("/url", &json!({ "url": url }));
    }

    /// What a script returns, run in the page from outside its policy.
    pub(crate) fn script(&mut self, script: &str) -> Value {
        self.ask("/execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// A command of the browser's own protocol.
    fn protocol(&mut self, command: &str, parameters: &Value) -> Value {
        self.ask("/goog/cdp/execute", &json!({ "cmd": command, "params": parameters }))
    }

    /// Shows the page as wide and high as this, and dark or light.
    pub(crate) fn looks(&mut self, width: u32, height: u32, dark: bool) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.protocol("Emulation.setDeviceMetricsOverride", &size);
        let scheme = if dark { "dark" } else { "light" };
        let media = json!({ "features": [
            { "name": "prefers-color-scheme", "value": scheme }, { "name": "prefers-reduced-motion", "value": "reduce" } ] });
        self.protocol("Emulation.setEmulatedMedia", &media);
    }

    /// Presses keys, one after the other.
    pub(crate) fn press(&mut self, keys: &[char]) {
        let all = keys.iter().flat_map(|key| ["keyDown", "keyUp"].map(|kind| json!({ "type": kind, "value": key })));
        let all: Vec<Value> = all.collect();
        self.ask("/actions", &json!({ "actions": [{ "type": "key", "id": "keys", "actions": all }] }));
    }

    /// What the page said on its console since it was asked last, what broke its policy and what could not be loaded
    /// included.
    pub(crate) fn console(&mut self) -> Vec<String> {
        let said = self.ask("/se/log", &json!({ "type": "browser" }));
        said.as_array().unwrap().iter().map(|line| format!("{} {}", line["level"], line["message"])).collect()
    }

    /// Keeps a picture of the whole page under the target folder.
    pub(crate) fn picture(&mut self, name: &str) {
        let size = self.script("return [innerWidth, document.documentElement.scrollHeight]");
        let clip = json!({ "x": 0, "y": 0, "width": size[0], "height": size[1], "scale": 1 });
        let whole = json!({ "format": "png", "captureBeyondViewport": true, "clip": clip });
        let told = self.protocol("Page.captureScreenshot", &whole);
        let bytes = openssl::base64::decode_block(told["data"].as_str().unwrap()).unwrap();
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("status-page");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(format!("{name}.png")), bytes).unwrap();
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() {
            let _ = self.try_command("DELETE", &format!("/session/{}", self.session), &Value::Null);
        }
    }
}
