//! Where is the running gateway asked? At its control socket, or at its admin address.
//!
//! The file is read for the path of the socket alone, however wrong the rest of it may be: a reload of a file with
//! mistakes has to reach the gateway, which says what they are.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};

use crate::config::process::Admin;

/// For a connection to the admin address.
const CONNECT: Duration = Duration::from_secs(5);

/// Where to ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Door {
    /// The control socket at this path, and the file that names it if one does.
    Socket { path: PathBuf, file: Option<PathBuf> },
    /// The admin address.
    Admin(SocketAddr),
}

/// A connection to either.
pub(super) enum Line {
    Local(UnixStream),
    Network(TcpStream),
}

impl Door {
    /// The socket the file names, else the default one of the user; the admin address where the file wants no socket.
    pub(super) fn of_file(file: Option<&Path>) -> anyhow::Result<Self> {
        let text = match file {
            Some(file) => fs::read_to_string(file).with_context(|| file.display().to_string())?,
            None => String::new(),
        };
        let path = match written(&text) {
            Written::At(path) => return Ok(Self::Socket { path, file: file.map(PathBuf::from) }),
            Written::Off => match admin(&text) {
                Some(address) => return Ok(Self::Admin(address)),
                None => bail!("control_socket and admin are both off: only signals reach the gateway, such as HUP"),
            },
            Written::Not => match crate::admin::default_path() {
                Some(path) => path,
                None => bail!("no control socket: neither root nor XDG_RUNTIME_DIR; name one with --socket or --admin"),
            },
        };
        Ok(Self::Socket { path, file: None })
    }

    /// The admin address of the file, as it is reached from this machine; what [`Door::of_file`] finds if it is off.
    pub(super) fn nearest(file: Option<&Path>) -> anyhow::Result<Self> {
        match Self::admin_of(file) {
            Some(address) => Ok(Self::Admin(address)),
            None => Self::of_file(file),
        }
    }

    /// The same, if it is not off.
    pub(super) fn admin_of(file: Option<&Path>) -> Option<SocketAddr> {
        // a gateway whose file is gone may serve all the same
        admin(&file.and_then(|file| fs::read_to_string(file).ok()).unwrap_or_default())
    }

    /// Connects, with so much time for every single read and write.
    pub(super) fn open(&self, patience: Duration) -> anyhow::Result<Line> {
        match self {
            Self::Socket { path, file } => {
                let stream = UnixStream::connect(path).map_err(|error| unreachable(path, file.as_deref(), &error))?;
                stream.set_read_timeout(Some(patience))?;
                stream.set_write_timeout(Some(patience))?;
                Ok(Line::Local(stream))
            }
            Self::Admin(address) => {
                let stream = TcpStream::connect_timeout(address, CONNECT)
                    .map_err(|error| anyhow!("admin address {address}: {error}; is the gateway running?"))?;
                stream.set_read_timeout(Some(patience))?;
                stream.set_write_timeout(Some(patience))?;
                Ok(Line::Network(stream))
            }
        }
    }
}

fn unreachable(path: &Path, file: Option<&Path>, error: &io::Error) -> anyhow::Error {
    let named = file.map_or_else(String::new, |file| format!(" (named by {})", file.display()));
    let why = match error.kind() {
        io::ErrorKind::PermissionDenied => "it is for root and whoever the gateway runs as",
        _ => "is the gateway running?",
    };
    anyhow!("control socket {}{named}: {error}; {why}", path.display())
}

/// The admin address a file says, or the default one; none if it is off. Any address is the own machine's, too.
fn admin(text: &str) -> Option<SocketAddr> {
    let file: serde_yaml::Value = serde_yaml::from_str(text).unwrap_or_default();
    let section = file.get("process").and_then(|process| process.get("admin"));
    if matches!(section, Some(serde_yaml::Value::Bool(false))) || section.and_then(|it| it.as_str()) == Some("off") {
        return None;
    }
    let written = section.and_then(|section| section.get("address")?.as_str()?.parse().ok());
    let mut address: SocketAddr = written.unwrap_or_else(|| Admin::default().address);
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    Some(address)
}

/// What a file says about the control socket.
#[derive(Debug, PartialEq, Eq)]
enum Written {
    At(PathBuf),
    Off,
    Not,
}

fn written(text: &str) -> Written {
    let file: serde_yaml::Value = serde_yaml::from_str(text).unwrap_or_default();
    match file.get("process").and_then(|process| process.get("control_socket")) {
        Some(serde_yaml::Value::Bool(false)) => Written::Off,
        Some(serde_yaml::Value::String(path)) if path == "off" => Written::Off,
        Some(serde_yaml::Value::String(path)) => Written::At(path.into()),
        _ => Written::Not,
    }
}

impl Read for Line {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Local(stream) => stream.read(buffer),
            Self::Network(stream) => stream.read(buffer),
        }
    }
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Local(stream) => stream.write(bytes),
            Self::Network(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_is_found_in_a_file_with_mistakes() {
        assert_eq!(written("process: { control_socket: /s }\npools: [wrong"), Written::Not);
        assert_eq!(written("process: { control_socket: /s, thraeds: 2 }\npols: {}"), Written::At("/s".into()));
        assert_eq!(written("process: { control_socket: off }"), Written::Off);
        assert_eq!(written("process: { control_socket: false }"), Written::Off);
        assert_eq!(written("process: {}"), Written::Not);
        assert_eq!(written("\t"), Written::Not);
    }

    #[test]
    fn the_admin_address_is_the_one_of_the_file_as_seen_from_here() {
        let address = |text: &str| admin(text).map(|address| address.to_string());
        assert_eq!(address("process: { admin: { address: 10.0.0.1:9 } }").unwrap(), "10.0.0.1:9");
        assert_eq!(address("process: { admin: { address: 0.0.0.0:9180 } }").unwrap(), "127.0.0.1:9180");
        assert_eq!(address("process: { admin: { address: \"[::]:9\" } }").unwrap(), "[::1]:9");
        for text in ["", "\t", "process: {}", "process: { admin: {} }"] {
            assert_eq!(address(text).unwrap(), "127.0.0.1:9180", "{text}");
        }
        for off in ["off", "false"] {
            assert_eq!(address(&format!("process: {{ admin: {off} }}")), None);
        }
    }

    #[test]
    fn a_socket_nobody_has_made_is_asked_about_with_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let (file, socket) = (folder.path().join("m.yaml"), folder.path().join("s"));
        fs::write(&file, format!("process: {{ control_socket: {} }}", socket.display())).unwrap();
        let door = Door::of_file(Some(&file)).unwrap();
        let Err(error) = door.open(Duration::from_secs(1)) else { panic!("somebody answered") };
        let said = error.to_string();
        assert_eq!(
            said,
            format!(
                "control socket {} (named by {}): No such file or directory (os error 2); is the gateway running?",
                socket.display(),
                file.display()
            )
        );
    }

    #[test]
    fn a_file_without_a_socket_leaves_the_admin_address_if_there_is_one() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("m.yaml");
        fs::write(&file, "process: { control_socket: off, admin: { address: 127.0.0.2:9 } }").unwrap();
        assert_eq!(Door::of_file(Some(&file)).unwrap(), Door::Admin(([127, 0, 0, 2], 9).into()));
        fs::write(&file, "process: { control_socket: off, admin: off }").unwrap();
        assert!(Door::of_file(Some(&file)).unwrap_err().to_string().contains("both off"));
        assert!(Door::of_file(Some(&folder.path().join("none"))).is_err());
    }
}
