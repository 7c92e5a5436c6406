//! Replays the committed corpus, and seeded mutations of it, through every fuzz target.

use super::*;
use crate::noise::Sealed;
use std::fs;
use std::path::PathBuf;

/// Set it to write the corpus anew after a change of `seeds`.
const WRITE: &str = "XYLEM_WRITE_CORPUS";
const MUTATIONS: u32 = 1_500;
const RANDOM: u32 = 5_000;

fn folder(target: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("fuzz/corpus")
        .join(target)
}

fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<(String, Vec<u8>)> = fs::read_dir(folder(target))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.display().to_string(), fs::read(&path).unwrap()))
        .collect();
    files.sort();
    files
}

#[test]
fn what_the_seeds_make_is_committed() {
    for (target, _) in TARGETS {
        let seeds = seeds(target);
        assert!(!seeds.is_empty(), "{target} has no seeds");
        for (name, bytes) in seeds {
            let file = folder(target).join(name);
            if std::env::var_os(WRITE).is_some() {
                fs::create_dir_all(folder(target)).unwrap();
                fs::write(&file, &bytes).unwrap();
            }
            let is_same = fs::read(&file).is_ok_and(|committed| committed == bytes);
            assert!(
                is_same,
                "{} is old: run this test with {WRITE}=1",
                file.display()
            );
        }
    }
}

#[test]
fn no_byte_of_the_corpus_breaks_a_parser() {
    for (target, run) in TARGETS {
        for (_, bytes) in corpus(target) {
            run(&bytes);
        }
    }
}

#[test]
fn no_seeded_mutation_of_the_corpus_breaks_a_parser() {
    for (target, run) in TARGETS {
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        let corpus = corpus(target);
        let shown = |name: &str, bytes: &[u8]| {
            let outcome = std::panic::catch_unwind(|| run(bytes));
            assert!(
                outcome.is_ok(),
                "{target} breaks on a change of {name}: {bytes:02x?}"
            );
        };
        // A key agreement for each costs too much for as many.
        let most = if target == "handshake" {
            MUTATIONS / 8
        } else {
            MUTATIONS
        };
        for (name, bytes) in &corpus {
            for _ in 0..most {
                shown(name, &random.mutated(bytes, &corpus));
            }
        }
        for _ in 0..RANDOM {
            let len = random.below(200);
            shown("nothing", &random.bytes(len));
        }
    }
}

/// Xorshift64*, so that a failure is the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() >> 16) as usize % n.max(1)
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| (self.next() >> 24) as u8).collect()
    }

    /// One to four changes: bits, bytes at limits, cuts, growth, pieces of other files.
    fn mutated(&mut self, bytes: &[u8], corpus: &[(String, Vec<u8>)]) -> Vec<u8> {
        let mut out = bytes.to_vec();
        for _ in 0..=self.below(4) {
            let at = self.below(out.len());
            match self.below(6) {
                0 if !out.is_empty() => out[at] ^= 1 << self.below(8),
                1 if !out.is_empty() => out[at] = [0, 1, 0x7f, 0x80, 0xff][self.below(5)],
                // Headers are at the start, and hold most that can be got wrong.
                2 if !out.is_empty() => {
                    let early = self.below(out.len().min(64));
                    out[early] = (self.next() >> 24) as u8;
                }
                3 => out.truncate(at),
                4 => {
                    let more = self.below(40);
                    let more = self.bytes(more);
                    out.splice(at..at, more);
                }
                _ => {
                    let other = &corpus[self.below(corpus.len())].1;
                    let from = self.below(other.len());
                    out.truncate(at);
                    out.extend_from_slice(&other[from..]);
                }
            }
        }
        out.truncate(70_000);
        out
    }
}

type Seeds = Vec<(&'static str, Vec<u8>)>;

fn seeds(target: &str) -> Seeds {
    match target {
        "steering" | "handshake" => messages(),
        "vnet" => super_packets(),
        "merge" => runs(),
        "echo" => vec![
            ("request", echo::request(7).to_vec()),
            ("reply", echo::reply(7).to_vec()),
        ],
        _ => packets(),
    }
}

/// One of each message, as long as it must be; those with keys of this run would differ each time.
fn messages() -> Seeds {
    let message = |kind: u8, len: usize, agent: u16| {
        let mut d: Vec<u8> = (0..len).map(|n| n as u8).collect();
        d[..4].copy_from_slice(&[kind, 0, 0, 0]);
        let [low, high] = agent.to_le_bytes();
        d[4..8].copy_from_slice(&[1, 0, low, high]);
        if kind == 2 {
            d[8..12].copy_from_slice(&[1, 0, low, high]);
        }
        d
    };
    let mut own = message(1, 148, OWN);
    Mac1Key::new(&IDENTITY.public_key()).stamp(&mut own);
    let mut other = message(1, 148, OTHER);
    Mac1Key::new(&Identity::new([3; 32]).public_key()).stamp(&mut other);
    vec![
        ("initiation-own", own),
        ("initiation-other", other),
        ("response", message(2, 92, OWN)),
        ("cookie", message(3, 64, OTHER)),
        ("keepalive", message(4, 32, OWN)),
        ("data", message(4, 128, OTHER)),
        ("empty", Vec::new()),
    ]
}

/// A TCP packet with right checksums.
fn tcp(is_v6: bool, sequence: u32, flags: u8, options: &[u8], payload: usize) -> Vec<u8> {
    let at = if is_v6 { 40 } else { 20 };
    let header = 20 + options.len();
    let mut p = vec![0u8; at + header + payload];
    let len = p.len();
    if is_v6 {
        p[0] = 0x60;
        p[4..6].copy_from_slice(&((len - 40) as u16).to_be_bytes());
        (p[6], p[7], p[8], p[24]) = (6, 64, 0xfd, 0xfd);
        (p[23], p[39]) = (1, 2);
    } else {
        p[0] = 0x45;
        p[2..4].copy_from_slice(&(len as u16).to_be_bytes());
        p[6] = 0x40;
        (p[8], p[9]) = (64, 6);
        p[12..20].copy_from_slice(&[198, 18, 0, 1, 10, 250, 3, 7]);
        let sum = !checksum::fold(checksum::sum(&p[..20]));
        checksum::store(&mut p, 10, sum);
    }
    p[at..at + 4].copy_from_slice(&[0x9c, 0x40, 0x28, 0x0a]);
    p[at + 4..at + 8].copy_from_slice(&sequence.to_be_bytes());
    p[at + 12] = (header as u8 / 4) << 4;
    p[at + 13] = flags;
    p[at + 20..at + header].copy_from_slice(options);
    for (n, byte) in p[at + header..].iter_mut().enumerate() {
        *byte = n as u8;
    }
    let sum = checksum::pseudo_header(&p, 6, len - at) + checksum::sum(&p[at..]);
    checksum::store(&mut p, at + 16, !checksum::fold(sum));
    p
}

fn packets() -> Seeds {
    let mss = [2, 4, 0x05, 0xb4];
    let odd = [1, 2, 4, 0x05, 0xb4, 1, 1, 0];
    let mut fragment = tcp(false, 1, 0x10, &[], 64);
    fragment[6] = 0x20;
    let mut extended = tcp(true, 1, 0x10, &[], 64);
    extended[6] = 60;
    extended[40..48].copy_from_slice(&[44, 0, 1, 4, 0, 0, 0, 0]);
    let mut icmp = tcp(false, 1, 0x10, &[], 64);
    icmp[9] = 1;
    icmp[20..28].copy_from_slice(&[3, 1, 0, 0, 0, 0, 0, 0]);
    icmp[28..56].copy_from_slice(&tcp(false, 1, 0x10, &[], 0)[..28]);
    vec![
        ("syn-v4", tcp(false, 1, 0x02, &mss, 0)),
        ("syn-v6", tcp(true, 1, 0x12, &mss, 0)),
        ("syn-odd", tcp(false, 1, 0x02, &odd, 0)),
        ("data-v4", tcp(false, 1, 0x10, &[], 100)),
        ("data-v6", tcp(true, 1, 0x18, &[], 100)),
        ("fragment", fragment),
        ("extended", extended),
        ("icmp-quote", icmp),
        ("empty", Vec::new()),
    ]
}

fn super_packets() -> Seeds {
    let with = |gso_type: u8, size: u16, packet: &[u8]| {
        let start = if packet[0] >> 4 == 6 { 40 } else { 20 };
        let header = VnetHeader {
            flags: u8::from(gso_type != GSO_NONE),
            gso_type,
            hdr_len: start + 20,
            gso_size: size,
            csum_start: start,
            csum_offset: 16,
        };
        [header.bytes().as_slice(), packet].concat()
    };
    vec![
        ("plain", with(0, 0, &tcp(false, 1, 0x10, &[], 100))),
        ("tso-v4", with(1, 100, &tcp(false, 1, 0x18, &[], 350))),
        ("tso-v6", with(4, 100, &tcp(true, 1, 0x10, &[], 350))),
        (
            "tso-fin",
            with(1, 64, &tcp(false, u32::MAX - 50, 0x91, &[], 200)),
        ),
        ("uso-lie", with(5, 100, &tcp(false, 1, 0x10, &[], 100))),
    ]
}

fn runs() -> Seeds {
    let joined = |packets: &[Vec<u8>]| {
        let framed = |p: &Vec<u8>| [&(p.len() as u16).to_le_bytes(), p.as_slice()].concat();
        packets.iter().flat_map(framed).collect::<Vec<u8>>()
    };
    let run = |is_v6| -> Vec<Vec<u8>> {
        (0..5)
            .map(|n| tcp(is_v6, 1 + n * 100, 0x10, &[], 100))
            .collect()
    };
    let mut corrupt = run(false);
    corrupt[2][77] ^= 1;
    let mut corrupt_header = run(false);
    corrupt_header[3][8] ^= 1;
    let mut pushed = run(true);
    pushed[3] = tcp(true, 301, 0x18, &[], 60);
    vec![
        ("run-v4", joined(&run(false))),
        ("run-v6", joined(&run(true))),
        ("corrupt", joined(&corrupt)),
        ("corrupt-header", joined(&corrupt_header)),
        ("pushed", joined(&pushed)),
        ("both", joined(&[run(false), run(true)].concat())),
    ]
}

#[test]
fn the_handshake_target_would_notice_an_authentic_message() {
    let mut far = LazyNoise::new(
        Arc::new(Identity::new([2; 32])),
        IDENTITY.public_key(),
        pair_index(OWN, 0),
    );
    let mut out = [0; HANDSHAKE_MAX];
    assert_eq!(far.initiate(&mut out), Sealed::Handshake(HANDSHAKE_MAX));
    let key = Identity::new([2; 32]).public_key();
    let mut peer = LazyNoise::new(IDENTITY.clone(), key, pair_index(OWN, 0));
    let mut room = [0; HANDSHAKE_MAX];
    assert_eq!(peer.open(&out, &mut room), Opened::Answer(92));
}

#[test]
fn a_run_of_the_corpus_is_really_merged() {
    struct Counted(usize);
    impl PacketSink for Counted {
        fn write(&mut self, _: &VnetHeader, parts: &[IoSlice]) {
            self.0 = self.0.max(parts.len());
        }
    }
    for (name, bytes) in runs() {
        let (mut merger, mut counted) = (Merger::new(MTU), Counted(0));
        for packet in cut(&bytes) {
            merger.slot().unwrap()[..packet.len()].copy_from_slice(&packet);
            merger.push(packet.len(), &mut counted);
        }
        merger.flush(&mut counted);
        assert!(counted.0 >= 2, "{name}");
    }
}
