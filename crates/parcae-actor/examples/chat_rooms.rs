//! A chat whose rooms crash, and whose members lose no line that was said.
//!
//! A room is an actor, and so is each member. Rooms are children of a supervisor that starts them
//! again when they fail. A room that fails forgets its members: they monitor it, and join again
//! when they hear of its end. Its lines are handed over to its next incarnation, and a member that
//! joins again gets those that it has missed. A room that takes too much work for one line fails,
//! too, and the others do not notice.
//!
//! ```sh
//! cargo run -p parcae-actor --example chat_rooms          # on threads
//! cargo run -p parcae-actor --example chat_rooms 42       # from a seed: the same run every time
//! ```

use parcae::prelude::*;
use parcae::profile::Cluster;
use parcae_actor::{
    Actor, ActorCx, ActorOpts, Actors, ActorsOpts, Address, Birth, Event, Exit, LetterReason, Next,
    Overrun, Reply, Supervise,
};
use std::time::Duration;

const ROOMS: usize = 3;
const MEMBERS: usize = 8;
const LINES: usize = 30;
const SOON: Duration = Duration::from_secs(10);

enum ToRoom {
    /// Sends the lines from this number on to a member, and those to come.
    Join {
        member: Address<ToMember>,
        from: usize,
    },
    Say(String),
    /// A line that takes more work than a line may take.
    Harass,
    /// A line that the room has an error with.
    Crash,
}

#[derive(Default)]
struct Room {
    lines: Vec<String>,
    members: Vec<Address<ToMember>>,
}

impl Actor for Room {
    type Msg = ToRoom;

    fn handle(&mut self, cx: &mut ActorCx<'_, ToRoom>, msg: ToRoom) -> parcae::Result<Next> {
        match msg {
            ToRoom::Join { member, from } => {
                for (number, line) in self.lines.iter().enumerate().skip(from) {
                    member.tell(ToMember::Line(number, line.clone()))?;
                }
                self.members.retain(|other| other.name() != member.name());
                self.members.push(member);
            }
            ToRoom::Say(line) => {
                let number = self.lines.len();
                self.lines.push(line.clone());
                // A member that is gone, or does not listen, does not hold up the others.
                self.members.retain(|member| {
                    member.tell_within(SOON, ToMember::Line(number, line.clone())).is_ok()
                });
            }
            ToRoom::Harass => cx.forever(|| Ok(())).map(|never| match never {})?,
            ToRoom::Crash => return Err(parcae::Error::msg("a line that nobody expected")),
        }
        Ok(Next::Continue)
    }

    fn stopping(&mut self, cx: &mut ActorCx<'_, ToRoom>, _: &Exit) {
        cx.hand_over(std::mem::take(&mut self.lines)); // and not the members
    }
}

enum ToMember {
    Line(usize, String),
    /// Numbers of lines and of letters.
    Heard(Reply<(usize, usize)>),
}

struct Member {
    room: Address<ToRoom>,
    /// Number of lines heard: the number of the next one.
    heard: usize,
    letters: usize,
}

impl Member {
    fn join(&mut self, cx: &mut ActorCx<'_, ToMember>) -> parcae::Result<()> {
        cx.monitor(&self.room);
        self.room.tell(ToRoom::Join { member: cx.address().tell_only(), from: self.heard })?;
        Ok(())
    }
}

impl Actor for Member {
    type Msg = ToMember;

    fn started(&mut self, cx: &mut ActorCx<'_, ToMember>) -> parcae::Result<()> {
        self.join(cx)
    }

    fn handle(&mut self, _: &mut ActorCx<'_, ToMember>, msg: ToMember) -> parcae::Result<Next> {
        match msg {
            ToMember::Line(number, _) if number < self.heard => {} // from before it joined again
            ToMember::Line(number, line) => {
                assert_eq!(number, self.heard, "a line was lost");
                self.heard += 1;
                self.letters += line.len();
            }
            ToMember::Heard(reply) => reply.send((self.heard, self.letters)),
        }
        Ok(Next::Continue)
    }

    fn event(&mut self, cx: &mut ActorCx<'_, ToMember>, event: Event) -> parcae::Result<Next> {
        if let Event::Down(_) = event {
            self.join(cx)?; // the address reaches the next incarnation
        }
        Ok(Next::Continue)
    }
}

fn main() -> parcae::Result<()> {
    let builder = Runtime::builder().workers(2).profile::<Cluster>();
    let seed = std::env::args().nth(1).and_then(|seed| seed.parse().ok());
    let rt = match seed {
        Some(seed) => builder.deterministic(seed).build()?,
        None => builder.build()?,
    };
    rt.run(|cx| {
        cx.actors(ActorsOpts::new().name("chat"), |system| {
            let spec = Supervise::one_for_one().restarts(100, SOON);
            let rooms = system.dynamic("rooms", spec)?;
            for number in 0..ROOMS {
                let opts =
                    ActorOpts::new(format!("room {number}")).message_ops(20_000, Overrun::Fail);
                let room = rooms.start(opts, |birth: &mut Birth| {
                    let lines = birth.take_state().unwrap_or_default();
                    Ok(Room { lines, members: Vec::new() })
                })?;
                let members = (0..MEMBERS).map(|member| {
                    let opts = ActorOpts::new(format!("member {member} of room {number}"));
                    let room = room.clone();
                    system.start(opts, move |_| {
                        Ok(Member { room: room.clone(), heard: 0, letters: 0 })
                    })
                });
                let members: Vec<_> = members.collect::<parcae::Result<_>>()?;
                for line in 0..LINES {
                    match line {
                        9 => room.tell(ToRoom::Crash)?,
                        19 => room.tell(ToRoom::Harass)?,
                        _ => room.tell(ToRoom::Say(format!("line {line}")))?,
                    }
                }
                let said = (0..LINES).filter(|line| ![9, 19].contains(line));
                let letters = said.map(|line| format!("line {line}").len()).sum();
                for member in &members {
                    while member.call(SOON, ToMember::Heard)? != (LINES - 2, letters) {
                        cx.sleep(Duration::from_millis(1))?;
                    }
                }
            }
            let failed = system.dead_letters().count(LetterReason::Failed);
            println!("{ROOMS} rooms of {MEMBERS} members, {} lines each", LINES - 2);
            println!("{failed} lines had an error or took too long; all others were heard");
            assert_eq!(failed, 2 * ROOMS as u64);
            let figures = rt.stats().parts.remove(0).figures;
            let shown = ["actors", "supervisors", "restarts left"];
            for (figure, value) in figures.iter().filter(|(figure, _)| shown.contains(figure)) {
                println!("{figure}: {value}");
            }
            Ok(())
        })
    })
}
