//! Protocol state that is made when it is first needed and given back when it is not: an idle peer is a key and a number.

use crate::noise::{Identity, Key, Noise, Opened, Sealed};
use std::sync::Arc;
use std::time::Duration;

/// The first byte of an initiation.
const INITIATION: u8 = 1;

/// A peer's protocol state, about 11 KB while awake.
///
/// Numbers of sessions begin anew after a rest. By then every session of before has expired at both
/// ends (see `Noise::rest`), and what was sealed for one fails to open in another.
pub struct LazyNoise {
    identity: Arc<Identity>,
    key: Key,
    index: u32,
    awake: Option<Box<dyn Noise>>,
}

impl LazyNoise {
    /// State at rest for one peer; costs nothing but memory for this value. `index` has 24 bits.
    pub fn new(identity: Arc<Identity>, key: Key, index: u32) -> LazyNoise {
        LazyNoise {
            identity,
            key,
            index,
            awake: None,
        }
    }

    fn wake(&mut self) -> &mut dyn Noise {
        let (identity, key, index) = (&self.identity, self.key, self.index);
        self.awake
            .get_or_insert_with(|| identity.peer(key, index))
            .as_mut()
    }
}

impl Noise for LazyNoise {
    fn seal(&mut self, packet: &[u8], out: &mut [u8]) -> Sealed {
        self.wake().seal(packet, out)
    }

    /// Only an authentic initiation wakes: nobody can make this device remember peers by forging.
    fn open(&mut self, datagram: &[u8], out: &mut [u8]) -> Opened {
        if let Some(awake) = self.awake.as_mut() {
            return awake.open(datagram, out);
        }
        if datagram.first() != Some(&INITIATION) {
            return Opened::Refused;
        }
        let mut fresh = self.identity.peer(self.key, self.index);
        let opened = fresh.open(datagram, out);
        if matches!(opened, Opened::Answer(_)) {
            self.awake = Some(fresh);
        }
        opened
    }

    fn drain(&mut self, out: &mut [u8]) -> Sealed {
        self.awake
            .as_mut()
            .map_or(Sealed::Nothing, |noise| noise.drain(out))
    }

    fn tick(&mut self, out: &mut [u8]) -> Sealed {
        self.awake
            .as_mut()
            .map_or(Sealed::Nothing, |noise| noise.tick(out))
    }

    fn initiate(&mut self, out: &mut [u8]) -> Sealed {
        self.wake().initiate(out)
    }

    fn session_age(&self) -> Option<Duration> {
        self.awake.as_ref().and_then(|noise| noise.session_age())
    }

    fn is_needed(&self) -> bool {
        self.awake.as_ref().is_some_and(|noise| noise.is_needed())
    }

    fn rest(&mut self) -> bool {
        if self.is_needed() {
            return false;
        }
        self.awake = None;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::HANDSHAKE_MAX;

    /// Both ends of a pair, at rest.
    fn pair() -> (LazyNoise, LazyNoise) {
        let ends = [[1; 32], [2; 32]].map(|key| Arc::new(Identity::new(key)));
        let keys = [ends[0].public_key(), ends[1].public_key()];
        let [gateway, agent] = ends;
        (
            LazyNoise::new(gateway, keys[1], 0x0102),
            LazyNoise::new(agent, keys[0], 0x0102),
        )
    }

    fn packet() -> Vec<u8> {
        let mut p = vec![0u8; 24];
        p[0] = 0x45;
        p[2..4].copy_from_slice(&24u16.to_be_bytes());
        p
    }

    /// What sealing made, as a datagram.
    fn bytes(sealed: Sealed, out: &[u8]) -> Vec<u8> {
        match sealed {
            Sealed::Data(n) | Sealed::Handshake(n) => out[..n].to_vec(),
            Sealed::Nothing | Sealed::Full => Vec::new(),
        }
    }

    #[test]
    fn a_peer_at_rest_wakes_for_a_packet_or_an_authentic_initiation_only() {
        let (mut gateway, mut agent) = pair();
        let (mut out, mut answer) = ([0u8; 512], [0u8; 512]);
        assert!(agent.rest() && gateway.rest());
        let sealed = gateway.seal(&packet(), &mut out);
        let initiation = bytes(sealed, &out);
        assert!(gateway.is_needed(), "a packet waits");
        for at in [20, 60, 100] {
            let mut forged = initiation.clone();
            forged[at] ^= 1;
            assert_eq!(agent.open(&forged, &mut answer), Opened::Refused);
            assert!(agent.awake.is_none());
        }
        assert_eq!(agent.open(&[4; 64], &mut answer), Opened::Refused);
        assert_eq!(agent.tick(&mut answer), Sealed::Nothing);
        assert_eq!(agent.drain(&mut answer), Sealed::Nothing);
        assert!(agent.awake.is_none());
        assert_eq!(agent.open(&initiation, &mut answer), Opened::Answer(92));
        assert!(agent.awake.is_some());
        assert!(matches!(
            gateway.open(&answer[..92], &mut out),
            Opened::Answer(_)
        ));
        assert!(matches!(gateway.drain(&mut out), Sealed::Data(_)));
    }

    #[test]
    fn nothing_rests_while_a_handshake_is_under_way_or_a_session_is_there() {
        let (mut gateway, mut agent) = pair();
        let (mut out, mut answer) = ([0u8; 512], [0u8; 512]);
        assert_eq!(gateway.initiate(&mut out), Sealed::Handshake(HANDSHAKE_MAX));
        assert!(!gateway.rest());
        agent.open(&out[..148], &mut answer);
        gateway.open(&answer[..92], &mut out);
        assert!(gateway.session_age().is_some());
        assert!(!gateway.rest());
    }

    /// W30: the other end of a replay would be made to answer for ever.
    #[test]
    fn w30_an_initiation_that_was_answered_once_is_never_answered_again() {
        let (mut gateway, mut agent) = pair();
        let (mut out, mut answer) = ([0u8; 512], [0u8; 512]);
        gateway.initiate(&mut out);
        let initiation = out[..148].to_vec();
        assert_eq!(agent.open(&initiation, &mut answer), Opened::Answer(92));
        assert!(
            !agent.rest(),
            "the time of the last initiation is remembered"
        );
        assert_eq!(agent.open(&initiation, &mut answer), Opened::Refused);
    }

    #[test]
    fn after_a_rest_a_new_session_is_made_and_the_old_one_stays_dead() {
        let (mut gateway, mut agent) = pair();
        let (mut out, mut answer) = ([0u8; 512], [0u8; 512]);
        let mut old = Vec::new();
        for _ in 0..2 {
            gateway.initiate(&mut out);
            assert_eq!(agent.open(&out[..148], &mut answer), Opened::Answer(92));
            assert!(matches!(
                gateway.open(&answer[..92], &mut out),
                Opened::Answer(_)
            ));
            let keepalive = out[..32].to_vec();
            assert_eq!(agent.open(&keepalive, &mut answer), Opened::Keepalive);
            assert_eq!(agent.open(&old, &mut answer), Opened::Refused);
            let sealed = agent.seal(&packet(), &mut answer);
            let reply = bytes(sealed, &answer);
            assert_eq!(gateway.open(&reply, &mut out), Opened::Packet(24));
            // As if all had expired.
            gateway.awake = None;
            assert_eq!(gateway.open(&reply, &mut out), Opened::Refused);
            old = reply;
        }
    }

    #[test]
    fn a_packet_that_waited_leaves_when_the_other_end_made_the_session() {
        let (mut gateway, mut agent) = pair();
        let (mut out, mut answer) = ([0u8; 512], [0u8; 512]);
        agent.seal(&packet(), &mut answer);
        gateway.initiate(&mut out);
        assert_eq!(agent.open(&out[..148], &mut answer), Opened::Answer(92));
        let response = answer[..92].to_vec();
        assert_eq!(
            agent.drain(&mut answer),
            Sealed::Nothing,
            "not confirmed yet"
        );
        assert!(matches!(
            gateway.open(&response, &mut out),
            Opened::Answer(_)
        ));
        assert_eq!(agent.open(&out[..32], &mut answer), Opened::Keepalive);
        let sealed = agent.drain(&mut answer);
        let data = bytes(sealed, &answer);
        assert_eq!(gateway.open(&data, &mut out), Opened::Packet(24));
        assert_eq!(agent.drain(&mut answer), Sealed::Nothing);
    }

    #[test]
    fn what_waits_for_a_session_is_bounded_and_more_is_said_to_be_lost() {
        let (mut gateway, _) = pair();
        let mut out = [0u8; 512];
        assert!(matches!(
            gateway.seal(&packet(), &mut out),
            Sealed::Handshake(_)
        ));
        for _ in 1..64 {
            assert_eq!(gateway.seal(&packet(), &mut out), Sealed::Nothing);
        }
        assert_eq!(gateway.seal(&packet(), &mut out), Sealed::Full);
    }
}
