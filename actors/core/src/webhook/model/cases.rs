//! Individual cases in the model: schedules, shares, pauses, and receivers that hang.

use porchlight_schema::limits::{ATTEMPT_SLOW_MS, DELIVERY_ATTEMPTS_MAX};

use super::*;

#[test]
fn a_dead_receiver_gets_six_attempts_on_schedule() {
    let mut world = World::new(Policy::default());
    world.receiver = Receiver::Fails;
    world.apply(Op::Enqueue(1));
    world.run_until(START.plus_ms(7 * 86_400_000));
    let attempts: Vec<u32> = world.sent.iter().map(|&(_, _, attempt)| attempt).collect();
    assert_eq!(attempts, [1, 2, 3, 4, 5, 6]);
    for (step, pair) in world.sent.windows(2).enumerate() {
        let waited_ms = pair[1].0.since_ms(pair[0].0) - 3;
        let step_ms = RETRY_DELAYS_MS[step] as i64;
        assert!(waited_ms >= step_ms && waited_ms <= step_ms + step_ms / 10);
    }
    assert!(world.messages.values().all(|m| m.state == State::Failed));
}

#[test]
fn internal_faults_do_not_use_up_attempts() {
    let mut world = World::new(Policy::default());
    world.receiver = Receiver::OursFails;
    world.apply(Op::Enqueue(1));
    world.run_until(START.plus_ms(3_600_000));
    assert!(
        world.sent.len() < 80,
        "attempted {} times",
        world.sent.len()
    );
    world.receiver = Receiver::Answers;
    world.run_until(START.plus_ms(3_700_000));
    assert_eq!(world.sent.last().unwrap().2, 1);
    assert!(world.messages.values().all(|m| m.state == State::Delivered));
}

#[test]
fn a_damaged_message_fails_without_an_attempt_and_delays_no_other() {
    let mut world = World::new(Policy::default());
    for session in [1, 1, 2] {
        world.enqueue(session);
    }
    let damaged = *world.messages.keys().next().unwrap();
    world.damaged.insert(damaged);
    world.input(Input::Woken);
    world.run_until(START.plus_ms(1_000));
    let states: Vec<_> = world.messages.values().map(|m| m.state).collect();
    assert_eq!(states.iter().filter(|&&s| s == State::Delivered).count(), 2);
    let ended = world.messages[&damaged];
    assert_eq!((ended.state, ended.attempts), (State::Failed, 0));
    // A requested retry of it ends as well.
    world.request_retry(0);
    world.input(Input::Woken);
    world.run_until(START.plus_ms(2_000));
    assert!(world.hand.is_empty());
    assert_eq!(world.messages[&damaged], ended);
}

#[test]
fn a_release_shows_old_messages_and_keeps_attempts_in_flight() {
    let mut world = World::new(Policy::default());
    world.receiver = Receiver::Hangs;
    world.apply(Op::Enqueue(1));
    world.run_until(START.plus_ms(10));
    assert_eq!(world.attempts.len(), 1);
    // A restriction hid this message for an hour, so no listing showed it.
    let hidden_at = START.plus_ms(-3_600_000);
    let session_id = SessionId::new(hidden_at, 7);
    let hidden = MessageId::derived(hidden_at, session_id, 0);
    world.lanes.insert(session_id, vec![hidden]);
    let message = Queued::new(hidden, session_id, 0, MessageEvent::SessionStarted);
    world.messages.insert(hidden, message);
    world.receiver = Receiver::Answers;
    world.input(Input::Released);
    world.run_until(START.plus_ms(1_000));
    assert_eq!(world.messages[&hidden].state, State::Delivered);
    assert_eq!(world.attempts.len(), 1, "the attempt is still in flight");
    world.run_until(START.plus_ms(10_000));
    let timed_out = world.messages.values().find(|m| m.id != hidden).unwrap();
    assert_eq!((timed_out.state, timed_out.attempts), (State::Waiting, 1));
}

#[test]
fn a_failing_lane_does_not_hold_up_the_others() {
    let mut world = World::new(Policy::default());
    world.receiver = Receiver::Fails;
    world.apply(Op::Enqueue(1));
    world.run_until(START.plus_ms(10));
    world.receiver = Receiver::Answers;
    world.enqueue(1);
    world.enqueue(2);
    world.input(Input::Woken);
    world.run_until(START.plus_ms(1_000));
    let lanes: Vec<_> = world.sent.iter().map(|sent| sent.1).collect();
    assert_eq!(lanes.len(), 2, "the failing lane's second message waits");
    assert_eq!(world.machine.lanes_blocked(), 1);
    world.run_until(START.plus_ms(120_000));
    assert!(world.messages.values().all(|m| m.state == State::Delivered));
}

#[test]
fn fresh_messages_precede_old_retries_and_neither_starves() {
    let mut world = World::new(Policy::default());
    world.receiver = Receiver::Fails;
    for session in 0..200 {
        world.enqueue(session);
    }
    world.input(Input::Woken);
    world.apply(Op::Pass(10_000));
    let retries_from = world.sent.len();
    // All retries are due, and an equal number of new messages arrives.
    world.receiver = Receiver::Answers;
    world.now = START.plus_ms(80_000);
    for session in 0..200_u8 {
        let session_id = SessionId::new(START, 1_000 + u128::from(session));
        let id = MessageId::derived(world.now, session_id, 0);
        world.lanes.insert(session_id, vec![id]);
        let fresh = Queued::new(id, session_id, 0, MessageEvent::SessionStarted);
        world.messages.insert(id, fresh);
    }
    world.input(Input::Woken);
    world.apply(Op::Pass(5_000));
    let later = &world.sent[retries_from..];
    assert_eq!(later.len(), 400);
    let first: Vec<bool> = later[..100].iter().map(|sent| sent.2 == 1).collect();
    let fresh = first.iter().filter(|&&fresh| fresh).count();
    assert!((60..100).contains(&fresh), "{fresh} of the first hundred");
}

#[test]
fn a_hanging_receiver_holds_ever_fewer_fast_permits() {
    let slow_max = 0;
    let mut world = World::new(Policy {
        slow_max,
        ..Policy::default()
    });
    world.receiver = Receiver::Hangs;
    for session in 0..250 {
        world.enqueue(session);
    }
    world.input(Input::Woken);
    assert!(world.attempts.len() > 24);
    world.run_until(START.plus_ms(14_000));
    assert_eq!(world.attempts.len(), Policy::IN_FLIGHT_MIN - 1);
    world.receiver = Receiver::Answers;
    world.run_until(START.plus_ms(30_000));
    assert_eq!(world.sent.len(), 250);
}

/// Lets `hanging` sessions hang, then sends a message of another session every 100 ms. Returns the
/// waiting time of each of these messages until it was sent.
fn waits_with_hanging_sessions(policy: Policy, hanging: u8) -> Vec<i64> {
    let mut world = World::new(policy);
    world.receiver = Receiver::Hangs;
    for session in 0..hanging {
        world.enqueue(session);
    }
    world.input(Input::Woken);
    // The hanging sessions fill the quick permits several times over, for half a second each time.
    world.run_until(START.plus_ms(4_000));
    world.receiver = Receiver::Answers;
    let (first, mut made) = (world.sent.len(), BTreeMap::new());
    for quick in 0..400_u32 {
        let session_id = SessionId::new(world.now, 1_000 + u128::from(quick));
        let id = MessageId::derived(world.now, session_id, 0);
        world.lanes.insert(session_id, vec![id]);
        let fresh = Queued::new(id, session_id, 0, MessageEvent::SessionStarted);
        world.messages.insert(id, fresh);
        made.insert(id, world.now);
        world.input(Input::Woken);
        world.run_until(world.now.plus_ms(100));
    }
    let quick = world.sent[first..].iter();
    let mut waits: Vec<i64> = quick
        .filter_map(|(at, id, _)| Some(at.since_ms(*made.get(id)?)))
        .collect();
    assert_eq!(waits.len(), 400);
    waits.sort_unstable();
    waits
}

#[test]
fn hanging_sessions_do_not_delay_the_other_sessions_of_their_endpoint() {
    let waits = waits_with_hanging_sessions(Policy::default(), 150);
    assert_eq!(waits[395], 0, "the slowest: {:?}", &waits[395..]);
    // Without room for slow attempts, the hanging sessions delay the others.
    let slow_max = 0;
    let policy = Policy {
        slow_max,
        ..Policy::default()
    };
    let waits = waits_with_hanging_sessions(policy, 150);
    assert!(waits[395] > 500, "the slowest: {:?}", &waits[395..]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]
    /// Quick messages wait at most once, while the machine finds out that the receiver hangs on
    /// some sessions. Neither the next sessions that hang nor the retries of the first delay them,
    /// even if both coincide.
    #[test]
    fn sessions_that_hang_in_bursts_delay_quick_ones_only_at_the_start(
        burst in 1..150_u128,
        response_ms in 1..100_u32,
        quick_every_ms in 10..100_i64,
        bursts_at_sec in prop::collection::btree_set(0..5_i64, 1..3),
    ) {
        let mut world = World::new(Policy::default());
        world.response_ms = response_ms..response_ms + 1 + response_ms / 10;
        let mut made = BTreeMap::new();
        let (mut hanging, mut quick) = (0.., 1_000_000..);
        let add = |world: &mut World, number| {
            let session_id = SessionId::new(world.now, number);
            let id = MessageId::derived(world.now, session_id, 0);
            world.lanes.insert(session_id, vec![id]);
            let fresh = Queued::new(id, session_id, 0, MessageEvent::SessionStarted);
            world.messages.insert(id, fresh);
            (session_id, id)
        };
        // The bursts begin after 5 s. Their retries follow 65 s later, with another burst.
        let share = burst.div_ceil(bursts_at_sec.len() as u128) as usize;
        let starts = bursts_at_sec.iter().map(|sec| 5_000 + sec * 1_000);
        let mut starts: VecDeque<_> = starts.chain([72_000]).collect();
        let first = START.plus_ms(starts[0]);
        while world.now < START.plus_ms(90_000) {
            let mut lanes = Vec::new();
            if starts.front().is_some_and(|&at| START.plus_ms(at) <= world.now) {
                starts.pop_front();
                let count = if starts.is_empty() { burst as usize } else { share };
                for number in hanging.by_ref().take(count) {
                    let (session_id, _) = add(&mut world, number);
                    world.hanging.insert(session_id);
                    lanes.push(session_id);
                }
            }
            let (session_id, id) = add(&mut world, quick.next().unwrap());
            made.insert(id, world.now);
            lanes.push(session_id);
            world.input(Input::NewMessages(lanes));
            world.run_until(world.now.plus_ms(quick_every_ms));
        }
        // An attempt counts as slow after half a second at the latest.
        let known = first.plus_ms(ATTEMPT_SLOW_MS as i64);
        let mut seen = 0;
        for (at, id, _) in &world.sent {
            let Some(&made_at) = made.get(id) else { continue };
            seen += 1;
            let waited_ms = at.since_ms(made_at);
            let is_early = (first..=known).contains(&made_at);
            let most_ms = if is_early { ATTEMPT_SLOW_MS as i64 } else { 0 };
            prop_assert!(waited_ms <= most_ms, "{waited_ms} ms, {} ms after the first burst",
                made_at.since_ms(first));
        }
        prop_assert_eq!(seen, made.len());
    }
}

#[test]
fn a_receiver_that_is_slow_on_all_sessions_gets_no_additional_attempts() {
    let mut world = World::new(Policy::default());
    world.response_ms = 200..240;
    for number in 0..2_000_u128 {
        let session_id = SessionId::new(START, number);
        let id = MessageId::derived(START, session_id, 0);
        world.lanes.insert(session_id, vec![id]);
        let fresh = Queued::new(id, session_id, 0, MessageEvent::SessionStarted);
        world.messages.insert(id, fresh);
    }
    world.input(Input::Woken);
    let mut most = 0;
    while !world.attempts.is_empty() {
        world.run_until(world.now.plus_ms(1));
        if world.now > START.plus_ms(2_000) {
            most = most.max(world.attempts.len());
        }
    }
    assert_eq!(world.sent.len(), 2_000);
    assert!(most <= Policy::default().in_flight_max, "{most} in flight");
}

#[test]
fn a_pause_holds_all_messages_and_resuming_sends_in_order() {
    let mut world = World::new(Policy::default());
    world.apply(Op::Mode(Mode::Paused(START)));
    for _ in 0..3 {
        for session in 0..100 {
            world.apply(Op::Enqueue(session));
            world.apply(Op::Pass(10));
        }
    }
    // If one session has two insights, only the newer one is sent.
    world.apply(Op::Enqueue(7));
    world.apply(Op::Pass(3 * 86_400_000));
    assert!(world.sent.is_empty());
    let is_superseded = |m: &&Queued| m.state == State::Superseded;
    assert_eq!(world.messages.values().filter(is_superseded).count(), 1);
    world.input(Input::Woken);
    assert!(world.idle, "nothing is kept in memory: {:?}", world.machine);
    world.apply(Op::Mode(Mode::Sending));
    world.run_until(world.now.plus_ms(10_000));
    assert_eq!(world.sent.len(), 300);
    for session in 0..100_u8 {
        let lane = &world.lanes[&SessionId::new(START, u128::from(session))];
        let sent = world.sent.iter().map(|(_, id, _)| id);
        let sent: Vec<_> = sent.filter(|id| lane.contains(id)).collect();
        assert!(sent.len() == 3 && sent.is_sorted());
    }
}

#[test]
fn messages_held_over_seven_days_are_cancelled_and_retryable() {
    let mut world = World::new(Policy::default());
    world.apply(Op::Mode(Mode::Paused(START)));
    world.apply(Op::Enqueue(1));
    world.apply(Op::Pass(HELD_MS_MAX as u32 - 60_000));
    world.apply(Op::Enqueue(1));
    assert!(world.messages.values().all(Queued::is_waiting));
    // The node's scan wakes the machine.
    world.apply(Op::Pass(120_000));
    world.input(Input::Woken);
    let states: Vec<_> = world.messages.values().map(|m| m.state).collect();
    assert_eq!(states, [State::Cancelled, State::Held]);
    world.apply(Op::Mode(Mode::Sending));
    world.apply(Op::Manual(0));
    world.run_until(world.now.plus_ms(1_000));
    assert!(world.messages.values().all(|m| m.state == State::Delivered));
}

#[test]
fn a_manual_attempt_is_made_at_once_during_a_pause() {
    let mut world = World::new(Policy::default());
    world.apply(Op::Receive(Receiver::Fails));
    world.apply(Op::Enqueue(1));
    world.run_until(world.now.plus_ms(48 * 3_600_000));
    let states = |world: &World| -> Vec<_> {
        let messages = world.messages.values();
        messages.map(|m| (m.state, m.attempts)).collect()
    };
    assert_eq!(states(&world), [(State::Failed, 6)]);
    world.apply(Op::Mode(Mode::Paused(START)));
    for _ in 0..2 {
        world.apply(Op::Enqueue(2));
    }
    world.run_until(world.now.plus_ms(1_000));
    let sent = world.sent.len();
    // A failed message, the first one of a lane that is held, and one behind it.
    for which in 0..3 {
        world.apply(Op::Manual(which));
        world.run_until(world.now.plus_ms(1_000));
    }
    assert_eq!(world.sent.len(), sent + 3);
    let attempted = [(State::Failed, 7), (State::Waiting, 1), (State::Waiting, 1)];
    assert_eq!(states(&world), attempted);
    // The next scheduled attempts of these messages are held again.
    world.run_until(world.now.plus_ms(3_600_000));
    assert_eq!(world.sent.len(), sent + 3);
    assert_eq!(states(&world)[1], (State::Held, 1));
    world.apply(Op::Receive(Receiver::Answers));
    world.apply(Op::Manual(1));
    world.run_until(world.now.plus_ms(1_000));
    assert_eq!(states(&world)[1], (State::Delivered, 2));
    assert_eq!(states(&world)[2], (State::Held, 1));
    world.apply(Op::Mode(Mode::Sending));
    world.run_until(world.now.plus_ms(1_000));
    assert_eq!(states(&world)[2], (State::Delivered, 2));
    assert!(world.hand.is_empty());
}

#[test]
fn the_attempts_of_a_message_are_bounded() {
    let mut world = World::new(Policy::default());
    world.apply(Op::Receive(Receiver::Fails));
    world.apply(Op::Enqueue(1));
    for _ in 0..2 * DELIVERY_ATTEMPTS_MAX {
        world.apply(Op::Manual(0));
        world.run_until(world.now.plus_ms(1_000));
    }
    let attempts = world.messages.values().map(|message| message.attempts);
    assert!(attempts.eq([DELIVERY_ATTEMPTS_MAX]));
    assert!(world.hand.is_empty());
}

#[test]
fn a_long_outbox_is_never_fully_loaded_into_memory() {
    let mut world = World::new(Policy::default());
    for number in 0..5_000_u32 {
        let session_id = SessionId::new(START, u128::from(number) << 8);
        let id = MessageId::derived(START, session_id, 0);
        world.lanes.insert(session_id, vec![id]);
        let fresh = Queued::new(id, session_id, 0, MessageEvent::SessionStarted);
        world.messages.insert(id, fresh);
    }
    world.input(Input::Woken);
    assert!(world.machine.window_len() <= Policy::default().lanes_max);
    while !world.attempts.is_empty() {
        world.run_until(world.now.plus_ms(1));
        assert!(world.machine.window_len() <= Policy::default().lanes_max);
    }
    assert!(world.messages.values().all(|m| m.state == State::Delivered));
    assert_eq!(world.sent.len(), 5_000);
}

#[test]
fn messages_of_known_lanes_are_sent_without_a_listing() {
    let mut world = World::new(Policy::default());
    world.run_until(START.plus_ms(1_000));
    let listings = world.listings;
    for session in 0..40 {
        world.apply(Op::EnqueueKnown(session));
        world.apply(Op::EnqueueKnown(session));
        world.run_until(world.now.plus_ms(5));
    }
    world.run_until(world.now.plus_ms(1_000));
    assert_eq!(world.sent.len(), 80);
    assert_eq!(world.listings, listings);
    let states = world.messages.values().map(|message| message.state);
    assert!(states.eq(std::iter::repeat_n(State::Delivered, 80)));
}
