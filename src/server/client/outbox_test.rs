use super::*;

fn outbox() -> Outbox {
    Outbox::new(ConnectionId(1), Arc::new(Unread::new(1 << 30, 100)))
}

fn list() -> Arc<LongList> {
    LongList::of_a_megabyte()
}

/// Sends like the connection's task, by a socket that takes a little at a time.
fn send_all(outbox: &Outbox) -> Vec<u8> {
    let mut taken = Vec::new();
    let mut is_blocked = false;
    let mut write = |bytes: &[u8]| {
        is_blocked = !is_blocked;
        if is_blocked {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let bytes = &bytes[..bytes.len().min(7001)];
        taken.extend_from_slice(bytes);
        Ok(bytes.len())
    };
    while !outbox.waiting.lock().is_empty() {
        if outbox.send(&mut write).unwrap() == Sent::List {
            outbox.send_of_list(&mut write).unwrap();
        }
    }
    taken
}

#[test]
fn a_list_goes_between_what_came_before_and_behind_it() {
    let outbox = outbox();
    let list = list();
    let names = list.chunks().concat();
    assert!(list.chunks().len() > 3);
    outbox.put(|out| out.extend_from_slice(b"before"));
    assert!(outbox.put_list(b"head", Arc::clone(&list), b"tail", Fresh::NOTHING_READ));
    outbox.put(|out| out.extend_from_slice(b"behind"));
    assert!(outbox.is_full(0));
    assert_eq!(outbox.len(), 20 + names.len());
    assert_eq!(outbox.own_len(), 20);
    let taken = send_all(&outbox);
    assert!(taken == [b"beforehead", &names[..], b"tailbehind"].concat());
    assert!(!outbox.is_full(0));
    assert_eq!(Arc::strong_count(&list), 1);
}

#[test]
fn what_waits_for_a_number_holds_up_all_that_is_there() {
    let (outbox, reached) = (outbox(), AtomicU64::new(3));
    let list = list();
    let put = |number: u64, bytes: &[u8]| {
        assert!(outbox.put_behind(number, &reached, |out| out.extend_from_slice(bytes)));
    };
    let sends_nothing = || {
        assert_eq!(outbox.send(|_| unreachable!()).unwrap(), Sent::All);
        assert_eq!(outbox.send_of_list(|_| unreachable!()).unwrap(), Sent::All);
    };
    put(3, b"a");
    assert!(send_all(&outbox) == b"a");
    put(4, b"b");
    outbox.put(|out| out.extend_from_slice(b"event"));
    put(5, b"c");
    outbox.put_list(b"head", Arc::clone(&list), b"tail", Fresh::NOTHING_READ);
    put(3, b"last");
    outbox.end();
    sends_nothing();
    reached.store(4, Ordering::SeqCst);
    assert!(!outbox.let_out(&reached));
    sends_nothing();
    assert!(!outbox.is_done());
    reached.store(u64::MAX, Ordering::SeqCst);
    assert!(outbox.let_out(&reached) && !outbox.let_out(&reached));
    let taken = send_all(&outbox);
    assert!(taken == [b"beventchead", &list.chunks().concat()[..], b"taillast"].concat());
    assert!(outbox.is_done());
}

#[test]
fn what_another_has_in_hand_stays_ahead_of_a_list() {
    let outbox = outbox();
    let list = list();
    outbox.put(|out| out.extend_from_slice(b"ab"));
    let mut calls = 0;
    let sent = outbox.send(|_| {
        calls += 1;
        if calls > 1 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        outbox.put_list(b"c", Arc::clone(&list), b"d", Fresh::NOTHING_READ);
        assert_eq!(outbox.send_of_list(|_| unreachable!()).unwrap(), Sent::Elsewhere);
        Ok(1)
    });
    assert_eq!(sent.unwrap(), Sent::Blocked);
    assert!(outbox.take_awaited());
    assert!(send_all(&outbox) == [b"bc", &list.chunks().concat()[..], b"d"].concat());
}

#[test]
fn only_the_task_sends_a_list_and_not_all_of_it_at_once() {
    let outbox = outbox();
    let list = list();
    outbox.put_list(b"", Arc::clone(&list), b"tail", Fresh::NOTHING_READ);
    assert_eq!(outbox.send(|_| unreachable!()).unwrap(), Sent::List);
    let mut turns = 0;
    while outbox.send(|bytes| Ok(bytes.len())).unwrap() == Sent::List {
        let mut taken = 0;
        let sent = outbox.send_of_list(|bytes| {
            taken += bytes.len();
            Ok(bytes.len())
        });
        assert_eq!(sent.unwrap(), Sent::List);
        assert!(taken < 2 * LIST_A_TURN, "{taken}");
        turns += 1;
    }
    assert!(turns >= 4, "{turns}");
    assert_eq!(outbox.len(), 0);
}

#[test]
fn an_abandoned_outbox_keeps_no_list() {
    let outbox = outbox();
    let list = list();
    outbox.put_list(b"", Arc::clone(&list), b"", Fresh::NOTHING_READ);
    let sent = outbox.send_of_list(|_| {
        outbox.abandon();
        Err(io::ErrorKind::WouldBlock.into())
    });
    assert_eq!(sent.unwrap(), Sent::Blocked);
    assert_eq!((outbox.len(), Arc::strong_count(&list)), (0, 1));
    assert!(outbox.is_done());
    assert!(!outbox.put_list(b"", list, b"", Fresh::NOTHING_READ));
}

#[test]
fn what_a_full_socket_leaves_goes_first_the_next_time() {
    let outbox = outbox();
    outbox.put(|out| out.extend_from_slice(b"abcdef"));
    let mut taken = Vec::new();
    let mut calls = 0;
    let sent = outbox
        .send(|bytes| {
            calls += 1;
            if calls > 1 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            taken.extend_from_slice(&bytes[..2]);
            Ok(2)
        })
        .unwrap();
    assert_eq!(sent, Sent::Blocked);
    outbox.put(|out| out.extend_from_slice(b"gh"));
    assert_eq!(outbox.len(), 6);
    let sent = outbox
        .send(|bytes| {
            taken.extend_from_slice(bytes);
            Ok(bytes.len())
        })
        .unwrap();
    assert_eq!(sent, Sent::All);
    assert_eq!(taken, b"abcdefgh");
}

#[test]
fn an_append_while_another_sends_is_taken_along() {
    let outbox = outbox();
    outbox.put(|out| out.extend_from_slice(b"a"));
    let mut taken = Vec::new();
    outbox
        .send(|bytes| {
            if taken.is_empty() {
                outbox.put(|out| out.extend_from_slice(b"b"));
                assert_eq!(outbox.send(|_| unreachable!()).unwrap(), Sent::Elsewhere);
            }
            taken.extend_from_slice(bytes);
            Ok(bytes.len())
        })
        .unwrap();
    assert_eq!(taken, b"ab");
}

#[test]
fn who_is_turned_away_is_known_to_the_sender() {
    let outbox = outbox();
    outbox.put(|out| out.extend_from_slice(b"a"));
    outbox
        .send(|bytes| {
            assert_eq!(outbox.send(|_| unreachable!()).unwrap(), Sent::Elsewhere);
            Ok(bytes.len())
        })
        .unwrap();
    assert!(outbox.take_awaited());
    assert!(!outbox.take_awaited());
}

#[test]
fn what_the_sender_holds_of_an_abandoned_outbox_does_not_come_back() {
    let outbox = outbox();
    outbox.put(|out| out.extend_from_slice(b"ab"));
    let sent = outbox.send(|_| {
        outbox.abandon();
        Err(io::ErrorKind::WouldBlock.into())
    });
    assert_eq!(sent.unwrap(), Sent::Blocked);
    assert!(outbox.is_done());
    assert_eq!(outbox.len(), 0);
}

#[test]
fn an_ended_outbox_takes_nothing_and_is_done_when_empty() {
    let outbox = outbox();
    outbox.put(|out| out.extend_from_slice(b"a"));
    outbox.end();
    assert!(!outbox.put(|_| unreachable!()));
    assert!(!outbox.is_done());
    outbox.send(|bytes| Ok(bytes.len())).unwrap();
    assert!(outbox.is_done());
}

/// Several outboxes against a model of a number and a time each; dice say what is put and what
/// a socket takes.
#[test]
fn the_budget_counts_what_waits_and_knows_who_read_last() {
    const OUTBOXES: u64 = 5;
    const LARGEST: usize = 200_000;
    let unread = Arc::new(Unread::new(1 << 30, 100));
    let outboxes: Vec<Outbox> = (0..OUTBOXES)
        .map(|number| Outbox::new(ConnectionId(number), Arc::clone(&unread)))
        .collect();
    let mut model = [(0_usize, None::<u32>, 0_usize); OUTBOXES as usize];
    let mut dice = crate::storage::sim::Dice(1);
    for step in 0..20_000 {
        let at = dice.below(OUTBOXES) as usize;
        let (outbox, (len, stalled, taken)) = (&outboxes[at], &mut model[at]);
        let put = match dice.below(10) {
            9 => {
                let mut event = BytesMut::zeroed(4097 + dice.below(20_000) as usize);
                let put = event.len();
                let event = LongEvent::of(&mut event, &unread).unwrap();
                assert!(outbox.put_long_event(&event));
                put
            }
            0..3 => {
                let event = vec![1; 1 + dice.below(3000) as usize];
                assert!(outbox.put_event(&event));
                event.len()
            }
            3 => {
                let mut answers = BytesMut::zeroed(1 + dice.below(LARGEST as u64) as usize);
                let put = answers.len();
                let claim = dice.coin().then(|| unread.take(put));
                outbox.put_answers(&mut answers, claim, Fresh::NOTHING_READ);
                assert!(answers.is_empty());
                put
            }
            4 => {
                let put = dice.below(1000) as usize;
                outbox.put(|out| out.extend_from_slice(&vec![1; put]));
                put
            }
            _ => 0,
        };
        *len += put;
        if put == 0 {
            let most = if dice.coin() { 1000 } else { 300_000 };
            let mut room = dice.below(most) as usize;
            let before = *len;
            let sent = outbox.send(|bytes| match bytes.len().min(room) {
                0 => Err(io::ErrorKind::WouldBlock.into()),
                taken => {
                    (room, *len) = (room - taken, *len - taken);
                    Ok(taken)
                }
            });
            assert_eq!(sent.unwrap() == Sent::All, *len == 0);
            *taken += before - *len;
            let share = (*len / 16).max(65_536);
            if *len == 0 {
                (*stalled, *taken) = (None, 0);
            } else if *taken >= share {
                (*stalled, *taken) = (Some(step), 0);
            } else if stalled.is_none() {
                *stalled = Some(step);
            }
        }
        assert_eq!(outbox.len(), *len);
        let all: usize = model.iter().map(|(len, ..)| len).sum();
        let counted = unread.bytes();
        let most = 2 * all + 2 * LARGEST * model.len();
        assert!((all..=most).contains(&counted), "{counted} for {all}");
        let longest = (0..OUTBOXES).filter(|at| model[*at as usize].1.is_some());
        let longest = longest.min_by_key(|at| model[*at as usize].1);
        let found = unread.longest(Duration::ZERO);
        assert_eq!(found.map(|found| found.connection.0), longest);
    }
    drop(outboxes);
    assert_eq!((unread.bytes(), unread.longest(Duration::ZERO)), (0, None));
}

/// Sends by a socket that takes so much, and then no more.
fn send_no_more_than(outbox: &Outbox, mut room: usize) {
    let sent = outbox.send(|bytes| match bytes.len().min(room) {
        0 => Err(io::ErrorKind::WouldBlock.into()),
        taken => {
            room -= taken;
            Ok(taken)
        }
    });
    assert_eq!(sent.unwrap(), Sent::Blocked);
}

fn longest(unread: &Unread) -> Option<u64> {
    unread.longest(Duration::ZERO).map(|longest| longest.connection.0)
}

#[test]
fn who_reads_a_little_of_much_keeps_its_place() {
    let unread = Arc::new(Unread::new(1 << 30, 100));
    let [trickling, later] =
        [1, 2].map(|number| Outbox::new(ConnectionId(number), Arc::clone(&unread)));
    for _ in 0..4000 {
        assert!(trickling.put_event(&[1; 1000]));
    }
    send_no_more_than(&trickling, 0);
    assert!(later.put_event(&[1; 100_000]));
    send_no_more_than(&later, 0);
    for _ in 0..100 {
        send_no_more_than(&trickling, 2000);
        assert_eq!(longest(&unread), Some(1));
    }
    // Now it is a sixteenth.
    send_no_more_than(&trickling, 50_000);
    assert_eq!(longest(&unread), Some(2));
    // Of little that waits it has to be 64 KiB.
    send_no_more_than(&later, 65_535);
    assert_eq!(longest(&unread), Some(2));
    send_no_more_than(&later, 1);
    assert_eq!(longest(&unread), Some(1));
}

#[test]
fn a_list_that_waits_for_the_servers_turn_does_not_stand_still() {
    let unread = Arc::new(Unread::new(1 << 30, 100));
    let [listing, later] =
        [1, 2].map(|number| Outbox::new(ConnectionId(number), Arc::clone(&unread)));
    let blocked = |_: &[u8]| Err(io::ErrorKind::WouldBlock.into());
    listing.put_list(b"", list(), b"", Fresh::NOTHING_READ);
    assert_eq!(listing.send_of_list(blocked).unwrap(), Sent::Blocked);
    later.put(|out| out.extend_from_slice(b"a"));
    send_no_more_than(&later, 0);
    assert_eq!(longest(&unread), Some(1));
    listing.pause();
    assert_eq!(longest(&unread), Some(2));
    // It is offered the next piece, and takes nothing.
    later.abandon();
    assert_eq!(longest(&unread), None);
    assert_eq!(listing.send_of_list(blocked).unwrap(), Sent::Blocked);
    assert_eq!(longest(&unread), Some(1));
    listing.abandon();
    assert_eq!(longest(&unread), None);
}

#[test]
fn what_waits_for_the_audit_log_does_not_stand_still() {
    let unread = Arc::new(Unread::new(1 << 30, 100));
    let [audited, later] =
        [1, 2].map(|number| Outbox::new(ConnectionId(number), Arc::clone(&unread)));
    let reached = AtomicU64::new(0);
    audited.put(|out| out.extend_from_slice(b"ab"));
    send_no_more_than(&audited, 1);
    later.put(|out| out.extend_from_slice(b"a"));
    send_no_more_than(&later, 0);
    audited.put_behind(1, &reached, |out| out.extend_from_slice(b"c"));
    assert_eq!(longest(&unread), Some(1), "it has not been seen to take anything");
    // Its socket takes something again.
    assert_eq!(audited.send(|_| unreachable!()).unwrap(), Sent::All);
    assert_eq!(longest(&unread), Some(2));
    reached.store(1, Ordering::SeqCst);
    assert!(audited.let_out(&reached));
    later.abandon();
    assert_eq!(longest(&unread), None);
    send_no_more_than(&audited, 0);
    assert_eq!(longest(&unread), Some(1));
    audited.send(|bytes| Ok(bytes.len())).unwrap();
    assert_eq!(longest(&unread), None);
}

#[test]
fn who_has_read_meanwhile_is_not_closed() {
    let unread = Arc::new(Unread::new(1 << 30, 100));
    let outbox = Outbox::new(ConnectionId(1), Arc::clone(&unread));
    outbox.put(|out| out.extend_from_slice(&[1; SHARE_LEAST + 4]));
    send_no_more_than(&outbox, 0);
    let before = unread.longest(Duration::ZERO).unwrap();
    send_no_more_than(&outbox, SHARE_LEAST);
    assert_eq!(outbox.abandon_at(before.rank), None);
    let now = unread.longest(Duration::ZERO).unwrap();
    assert_eq!(outbox.abandon_at(now.rank), Some(4));
    assert_eq!((unread.bytes(), unread.longest(Duration::ZERO)), (0, None));
    assert!(outbox.is_done());
}

/// Its bytes count once, and its place with each who is told.
#[test]
fn the_budget_counts_all_that_a_long_event_takes() {
    const EVENTS: usize = 1000;
    const LEN: usize = LONG_EVENT + 1;
    let unread = Arc::new(Unread::new(1 << 30, 100));
    let outbox = |number| Outbox::new(ConnectionId(number), Arc::clone(&unread));
    let outboxes: Vec<Outbox> = (0..100).map(outbox).collect();
    let mut frame = BytesMut::new();
    for _ in 0..EVENTS {
        frame.reserve(LEN + LEN / 2);
        frame.resize(LEN, 1);
        let event = LongEvent::of(&mut frame, &unread).expect("it is a long one");
        // What it stands in is its own.
        assert_eq!(frame.capacity(), 0);
        outboxes.iter().for_each(|outbox| assert!(outbox.put_long_event(&event)));
    }
    let places = |outbox: &Outbox| {
        let waiting = outbox.waiting.lock();
        waiting.ahead.as_ref().map_or(0, |ahead| ahead.pieces.capacity() * size_of::<Piece>())
    };
    let places: usize = outboxes.iter().map(places).sum();
    let (counted, once) = (unread.bytes(), EVENTS * LEN);
    assert!((once + places..=2 * (once + places)).contains(&counted), "{counted} bytes");
    outboxes.iter().for_each(Outbox::abandon);
    assert_eq!(unread.bytes(), 0);
}

#[test]
fn one_client_may_leave_a_quarter_of_all_events_unread() {
    let unread = Arc::new(Unread::new(4000, 100));
    let outbox = Outbox::new(ConnectionId(1), unread);
    assert!((0..10).all(|_| outbox.put_event(&[1; 100])));
    assert!(!outbox.put_event(&[1]));
}
