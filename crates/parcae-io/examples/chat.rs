//! A chat room: each line goes to all guests, with the name of its author. A guest that does not
//! read is dropped, so that it does not hold up the others. Server and guests are in one process.
//!
//! `cargo run -p parcae-io --example chat`

use parcae::channel::{self, Receiver, Sender};
use parcae::prelude::*;
use parcae::sync::Mutex;
use parcae_io::net::{TcpListener, TcpStream};
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;

/// Lines that wait for a guest.
const MAILBOX: usize = 64;

/// The guests, by name.
type Room = Mutex<Vec<(String, Sender<String>)>>;

fn main() -> parcae::Result<()> {
    let rt = Runtime::builder().workers(2).build()?;
    let heard = rt.run(|cx| {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let (room, stop) = (Room::new(Vec::new()), CancelToken::new());
        cx.nursery(|n| {
            n.spawn(|cx| serve(cx, &listener, &room, &stop))?;
            let clotho = Guest::enter(address, "clotho")?;
            let mut lachesis = Guest::enter(address, "lachesis")?;
            clotho.say("I spin")?;
            let first = lachesis.hear()?;
            let atropos = Guest::enter(address, "atropos")?;
            atropos.say("I cut")?;
            let second = lachesis.hear()?;
            stop.cancel();
            Ok([first, second])
        })
    })?;
    println!("lachesis heard: {} / {}", heard[0], heard[1]);
    assert_eq!(heard, ["clotho: I spin", "atropos: I cut"]);
    Ok(())
}

fn serve(cx: &Cx, listener: &TcpListener, room: &Room, stop: &CancelToken) -> parcae::Result<()> {
    let served = cx.nursery_with(NurseryOpts::new().token(stop), |n| {
        for stream in listener.incoming() {
            let stream = stream?;
            n.spawn(move |cx| host(cx, stream, room))?;
        }
        Ok(())
    });
    served.or_else(|error| if error.is_cancelled() { Ok(()) } else { Err(error) })
}

/// One guest: a task reads its lines, another writes those of the room.
fn host(cx: &Cx, stream: TcpStream, room: &Room) -> parcae::Result<()> {
    let mut lines = BufReader::new(&stream).lines();
    let Some(name) = lines.next().transpose()? else { return Ok(()) };
    let (sender, mailbox) = channel::channel(MAILBOX);
    room.lock()?.push((name.clone(), sender));
    (&stream).write_all(b"welcome\n")?;
    cx.nursery(|n| {
        n.spawn(|_| deliver(&stream, &mailbox))?;
        for line in lines {
            broadcast(room, &name, &line?)?;
        }
        room.lock()?.retain(|(guest, _)| *guest != name); // the mailbox ends, and its task
        Ok(())
    })
}

fn deliver(mut stream: &TcpStream, mailbox: &Receiver<String>) -> parcae::Result<()> {
    while let Ok(line) = mailbox.recv() {
        stream.write_all(line.as_bytes())?;
    }
    Ok(())
}

/// Sends a line to all others. A guest whose mailbox is full leaves the room.
fn broadcast(room: &Room, author: &str, line: &str) -> parcae::Result<()> {
    let told = format!("{author}: {line}\n");
    room.lock()?
        .retain(|(guest, mailbox)| guest == author || mailbox.try_send(told.clone()).is_ok());
    Ok(())
}

struct Guest {
    lines: BufReader<TcpStream>,
}

impl Guest {
    fn enter(address: SocketAddr, name: &str) -> parcae::Result<Guest> {
        let stream = TcpStream::connect(address)?;
        (&stream).write_all(format!("{name}\n").as_bytes())?;
        let mut guest = Guest { lines: BufReader::new(stream) };
        assert_eq!(guest.hear()?, "welcome");
        Ok(guest)
    }

    fn say(&self, line: &str) -> parcae::Result<()> {
        let mut stream = self.lines.get_ref();
        Ok(stream.write_all(format!("{line}\n").as_bytes())?)
    }

    fn hear(&mut self) -> parcae::Result<String> {
        let mut line = String::new();
        self.lines.read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    }
}
