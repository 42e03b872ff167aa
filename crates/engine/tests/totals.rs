//! Totals climb no faster than the parent takes them. Engines driven by hand.

use std::time::Duration;

use atta_engine::{Action, Config, Engine, Load, Message, Place, Rank};

const BUSY: Load = Load { waiting: 9, running: 1, slots: 1 };

fn start(rank: u32) -> Engine<()> {
    let config = Config { progress_interval: Some(Duration::from_micros(1)), ..Config::default() };
    Engine::new(config, &Place::new(Rank(rank), 2, vec![]))
}

/// Answers what the engine asks for; gives what it sends.
fn sent(engine: &mut Engine<()>, now: Duration) -> Vec<Message> {
    let mut sent = Vec::new();
    while let Some(action) = engine.poll_action() {
        match action {
            Action::Report => engine.report(now, ()),
            Action::Send { message, .. } => sent.push(message),
            _ => {}
        }
    }
    sent
}

fn totals(sent: &[Message]) -> Vec<bool> {
    let last = sent.iter().filter_map(|message| match message {
        Message::Totals { last, .. } => Some(*last),
        _ => None,
    });
    last.collect()
}

#[test]
fn next_totals_wait_for_the_parent() {
    let at = Duration::from_micros;
    let mut child = start(1);
    let mut climbed = Vec::new();
    for now in 1..=1000 {
        child.handle_load(at(now), BUSY);
        climbed.extend(totals(&sent(&mut child, at(now))));
    }
    assert_eq!(climbed, [false], "a thousand intervals have passed");
    assert!(child.poll_timeout().is_none_or(|next| next > at(1000)), "nothing is due");

    child.handle_message(at(1001), Rank(0), Message::TotalsTaken).unwrap();
    assert_eq!(totals(&sent(&mut child, at(1001))), [false]);
    child.handle_message(at(1002), Rank(0), Message::TotalsTaken).unwrap();
    let error = child.handle_message(at(1002), Rank(0), Message::TotalsTaken);
    assert!(sent(&mut child, at(1002)).len() <= 1 && error.is_err(), "none were under way");
}

#[test]
fn last_totals_wait_for_earlier_ones() {
    let at = Duration::from_micros;
    let (mut root, mut child) = (start(0), start(1));
    child.handle_load(at(5), Load::default());
    assert_eq!(totals(&sent(&mut child, at(5))), [false]);
    child.handle_message(at(6), Rank(0), Message::Finish(atta_engine::Reason::Stopped)).unwrap();
    child.finish(at(6), ());
    assert_eq!(totals(&sent(&mut child, at(6))), []);
    child.handle_message(at(7), Rank(0), Message::TotalsTaken).unwrap();
    assert_eq!(totals(&sent(&mut child, at(7))), [true]);

    for (last, answered) in [(false, true), (true, false)] {
        root.handle_message(at(8), Rank(1), Message::Totals { last, value: vec![] }).unwrap();
        let answers = sent(&mut root, at(8));
        assert_eq!(answers.contains(&Message::TotalsTaken), answered, "{answers:?}");
    }
}
