//! How is the origin told what to do? One command a line, one reply a line; a command that waits holds up only its
//! own connection.

use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use crate::script::{Command, Reply};
use crate::stage::Stage;

/// Serves the control port.
pub(crate) async fn listen(listener: TcpListener, stage: Arc<Stage>) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(talk(stream, Arc::clone(&stage)));
    }
}

async fn talk(stream: TcpStream, stage: Arc<Stage>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    while stream.read_line(&mut line).await? > 0 {
        let reply = match serde_json::from_str(&line) {
            Ok(command) => obey(command, &stage).await,
            Err(error) => Reply::Mistake(error.to_string()),
        };
        let mut text = serde_json::to_vec(&reply)?;
        text.push(b'\n');
        stream.get_mut().write_all(&text).await?;
        line.clear();
    }
    Ok(())
}

async fn obey(command: Command, stage: &Stage) -> Reply {
    let awaited = |happened: bool| if happened { Reply::Done } else { Reply::TooLate };
    match command {
        Command::Rules(rules) => stage.script(rules, true),
        Command::Rule(rule) => stage.script(vec![rule], false),
        Command::Seen => return Reply::Seen(stage.seen()),
        Command::Forget => stage.forget(),
        Command::Counts => return Reply::Counts(stage.counts()),
        Command::AwaitRequests { path, count, within_ms } => {
            return awaited(stage.await_requests(path.as_deref(), count, within_ms).await);
        }
        Command::AwaitHeld { name, count, within_ms } => {
            return awaited(stage.await_held(&name, count, within_ms).await);
        }
        Command::Release(name) => stage.release(name),
        Command::Door(door) => stage.set_door(door).await,
        Command::CloseIdle(how) => stage.close_idle(how),
        Command::IdleClose(after) => stage.set_idle_close(after.map(Duration::from_millis)),
        Command::Record(on) => stage.record(on),
    }
    Reply::Done
}
