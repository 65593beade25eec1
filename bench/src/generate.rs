//! Generates access log lines as from a web analytics company's nginx: hand-written JSON with 15
//! fields and a request id.
//!
//! The distributions are those of real traffic: 200 sites (Zipf 1.1), 50,000 pages (1.05), 5,000
//! user agents (1.0), 300,000 clients (0.9), lognormal times, 1 % of responses 5xx, 2.9 % 4xx, 9 %
//! 3xx, 589 bytes per line. One line in 2,000 is not JSON: half of those are truncated, half
//! contain nginx's `\x22`. The seed determines every byte.

use std::fmt::Write;

use weir_tables::Micros;

use crate::random::{Random, Zipf, index};

const TOPICS: &[&str] = &[
    "harbour",
    "museum",
    "election",
    "markets",
    "weather",
    "cycling",
    "theatre",
    "recipes",
    "astronomy",
    "gardens",
    "traffic",
    "football",
    "schools",
    "history",
    "energy",
    "railways",
    "films",
    "rivers",
    "housing",
    "language",
    "chess",
    "coffee",
    "medicine",
    "festival",
    "archive",
    "interview",
    "letters",
    "opinion",
    "photography",
    "travel",
];

const TLDS: &[&str] = &["com", "org", "net", "de", "fr"];
const CAMPAIGNS: &[&str] = &["newsletter", "partner", "social", "search", "retarget"];

/// Statuses with their share in thousandths; the rest is 200.
const STATUSES: &[(u16, u64)] = &[
    (502, 4),
    (504, 3),
    (500, 2),
    (503, 1),
    (404, 18),
    (403, 4),
    (499, 5),
    (400, 2),
    (304, 60),
    (302, 30),
    (204, 20),
];

/// One line in this many is not JSON.
const BROKEN_ONE_IN: u64 = 2000;

/// Names for lines, and the random state.
pub(crate) struct Generator {
    random: Random,
    sites: (Vec<String>, Zipf),
    pages: (Vec<String>, Zipf),
    agents: (Vec<String>, Zipf),
    referers: (Vec<String>, Zipf),
    clients: Zipf,
}

impl Generator {
    pub(crate) fn new(seed: u64) -> Self {
        let mut names = Random::new(seed.rotate_left(32));
        Self {
            sites: (many(&mut names, 200, site), Zipf::new(200, 1.1)),
            pages: (many(&mut names, 50_000, page), Zipf::new(50_000, 1.05)),
            agents: (many(&mut names, 5_000, agent), Zipf::new(5_000, 1.0)),
            referers: (many(&mut names, 5_000, referer), Zipf::new(5_000, 1.0)),
            clients: Zipf::new(300_000, 0.9),
            random: Random::new(seed),
        }
    }

    /// Appends a line, with a line feed, of a request that completed at `at`.
    pub(crate) fn line(&mut self, at: Micros, out: &mut String) {
        let start = out.len();
        let status = self.status();
        let page = self.pages.1.draw(&mut self.random);
        self.timing(at, status, page, out);
        let _infallible =
            write!(out, r#""status":{status},"uri":"{}","query_strings":""#, self.pages.0[page]);
        self.query(page, out);
        self.names(page, out);
        let broken = self.random.chance([1, BROKEN_ONE_IN]);
        let is_torn = broken && self.random.chance([1, 2]);
        if broken && !is_torn {
            out.push_str(r"Mozilla/4.0 \x22compatible\x22 ");
        }
        let agent = self.agents.1.draw(&mut self.random);
        let (high, low) = (self.random.next(), self.random.next());
        let _infallible =
            write!(out, r#"{}","request_id":"{high:016x}{low:016x}"}}"#, self.agents.0[agent]);
        if is_torn {
            out.truncate(start + 50 + index(low % 300));
        }
        out.push('\n');
    }

    fn status(&mut self) -> u16 {
        let mut drawn = self.random.below(1000);
        for (status, share) in STATUSES {
            if drawn < *share {
                return *status;
            }
            drawn -= share;
        }
        200
    }

    /// Appends time, client, size, and durations in total and of the upstream.
    fn timing(&mut self, at: Micros, status: u16, page: usize, out: &mut String) {
        let random = &mut self.random;
        let client =
            (self.clients.draw(random) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        let slowness = 1.0 + f64::from(u32::try_from(page % 89).unwrap_or(0)) / 7.0;
        let upstream = if status == 504 { 60.0 } else { random.lognormal([0.004 * slowness, 0.9]) };
        let total = upstream + random.lognormal([0.001, 1.0]);
        let bytes = match status {
            204 | 304 => 0.0,
            302 => 154.0,
            400.. => 320.0,
            _ if page == 0 => 43.0,
            _ => random.lognormal([9000.0, 1.3]).floor(),
        };
        let time = &at.to_string()[..19];
        let _infallible = write!(
            out,
            r#"{{"@timestamp":"{time}+00:00","@version":"1","remote_addr":"{}.{}.{}.{}","body_bytes_sent":{bytes},"request_time":{total:.3},"#,
            client[0] | 1,
            client[1],
            client[2],
            client[3],
        );
        let has_no_upstream = random.chance([1, 50]) || (status == 499 && random.chance([1, 2]));
        let node = random.below(12);
        let _infallible = if has_no_upstream {
            write!(out, r#""upstream_addr":"-","upstream_response_time":"-","#)
        } else {
            write!(
                out,
                r#""upstream_addr":"10.20.{}.{}:8080","upstream_response_time":"{upstream:.3}","#,
                node / 4,
                10 + node
            )
        };
    }

    /// Appends the query. Page 0 is the beacon, whose query has measurements.
    fn query(&mut self, page: usize, out: &mut String) {
        let random = &mut self.random;
        let (visitor, kind) = (random.next(), random.below(100));
        let _infallible = if page == 0 {
            let (site, other) = (self.sites.1.draw(random), self.pages.1.draw(random));
            write!(
                out,
                "h={}&p={}&u={visitor:016x}&s={}&n={}&c={}.{}&w={}&x={}&m={}&y={}&t={:08x}",
                self.sites.0[site],
                self.pages.0[other],
                random.below(65_536),
                random.below(2),
                random.below(90),
                random.below(100),
                360 + random.below(2000),
                random.below(9000),
                random.below(20_000),
                600 + random.below(600),
                random.next() >> 32,
            )
        } else {
            match kind {
                0..45 => Ok(()),
                45..70 => write!(out, "page={}&order=newest", 1 + visitor % 60),
                70..90 => write!(
                    out,
                    "utm_source={}&utm_medium=link&sid={visitor:016x}",
                    random.choose(CAMPAIGNS)
                ),
                _ => write!(
                    out,
                    "q={}+{}&cb={}",
                    random.choose(TOPICS),
                    random.choose(TOPICS),
                    visitor % 1_000_000_000
                ),
            }
        };
    }

    /// Appends method, referer, site and scheme, up to the opening quote of the user agent.
    fn names(&mut self, page: usize, out: &mut String) {
        let random = &mut self.random;
        let method = match random.below(200) {
            0 => "HEAD",
            1..14 if page != 0 => "POST",
            _ => "GET",
        };
        let _infallible = write!(out, r#"","request_method":"{method}","http_referrer":""#);
        match random.below(10) {
            0..3 => out.push('-'),
            3 => {
                let (what, of) = (random.choose(TOPICS), random.choose(TOPICS));
                let _infallible = write!(
                    out,
                    "https://www.search.example/search?q={what}+{of}&ei={:012x}",
                    random.next() >> 16
                );
            }
            _ => out.push_str(&self.referers.0[self.referers.1.draw(random)]),
        }
        let (site, scheme) =
            (self.sites.1.draw(random), if random.chance([7, 10]) { "https" } else { "http" });
        let _infallible = write!(
            out,
            r#"","http_host":"{}","scheme":"{scheme}","http_user_agent":""#,
            self.sites.0[site]
        );
    }
}

fn many(random: &mut Random, count: u32, name: fn(&mut Random, u32) -> String) -> Vec<String> {
    (0..count).map(|number| name(random, number)).collect()
}

fn site(random: &mut Random, number: u32) -> String {
    match number % 3 {
        0 => format!("www.{}-{number}.{}", random.choose(TOPICS), random.choose(TLDS)),
        1 => format!("ping{number}.beacon.example.net"),
        _ => format!("m.{}{number}.{}", random.choose(TOPICS), random.choose(TLDS)),
    }
}

fn page(random: &mut Random, number: u32) -> String {
    match number {
        0 => "/ping".to_owned(),
        1 => "/".to_owned(),
        _ => {
            let (section, first, second) =
                (random.choose(TOPICS), random.choose(TOPICS), random.choose(TOPICS));
            format!("/{section}/{first}-{second}-{number}")
        }
    }
}

fn agent(random: &mut Random, number: u32) -> String {
    let (major, minor) = (95 + random.below(50), random.below(8));
    match number % 5 {
        0 => format!(
            "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/{major}.0.{}.{} Safari/537.36",
            random.below(7000),
            random.below(250)
        ),
        1 => format!(
            "Mozilla/5.0 (iPhone; CPU iPhone OS {}_{minor} like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/{}.{minor} Mobile/15E148 Safari/604.1",
            14 + random.below(6),
            14 + random.below(6)
        ),
        2 => format!(
            "Mozilla/5.0 (Linux; Android {}; Pixel {}) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/{major}.0.{}.0 Mobile Safari/537.36",
            10 + random.below(7),
            3 + random.below(8),
            random.below(7000)
        ),
        3 => format!(
            "Mozilla/5.0 (X11; Linux x86_64; rv:{major}.0) Gecko/20100101 Firefox/{major}.{minor}"
        ),
        _ => format!(
            "{}/{}.{minor} (+https://www.{}.example/bot.html)",
            random.choose(&["feedreader", "linkcheck", "indexer", "archiver"]),
            1 + random.below(9),
            random.choose(TOPICS)
        ),
    }
}

fn referer(random: &mut Random, number: u32) -> String {
    let (site, tld) = (random.choose(TOPICS), random.choose(TLDS));
    format!(
        "https://{site}.example.{tld}/{}/{}-{number}",
        random.choose(TOPICS),
        random.choose(TOPICS)
    )
}

#[cfg(test)]
mod tests {
    use weir_tables::Micros;

    use super::Generator;

    fn lines(seed: u64, count: usize) -> String {
        let (mut generator, mut out) = (Generator::new(seed), String::new());
        (0..count).for_each(|_| generator.line(Micros(1_763_600_000_000_000), &mut out));
        out
    }

    #[test]
    fn the_same_seed_gives_the_same_bytes() {
        assert_eq!(lines(42, 500), lines(42, 500));
        assert_ne!(lines(42, 5), lines(43, 5));
    }

    #[test]
    fn lines_are_as_long_as_the_reference_says() {
        let text = lines(42, 100_000);
        let mean = text.len() / 100_000;
        assert!((580..=598).contains(&mean), "{mean} bytes a line, should be 589");
    }

    #[test]
    fn shares_of_statuses_and_broken_lines_are_as_stated() {
        let text = lines(42, 200_000);
        let parsed: Vec<_> = text.lines().map(serde_json::from_str::<serde_json::Value>).collect();
        let broken = parsed.iter().filter(|line| line.is_err()).count();
        assert!(
            (60..=140).contains(&broken),
            "{broken} of 200,000 are not JSON, should be about 100"
        );
        let good: Vec<u64> =
            parsed.iter().flatten().filter_map(|line| line["status"].as_u64()).collect();
        for (class, expected) in [(5, 9..=11), (4, 27..=31), (3, 86..=94)] {
            let count = good.iter().filter(|status| **status / 100 == class).count();
            assert!(expected.contains(&(1000 * count / good.len())), "{class}xx: {count}");
        }
        assert!(
            parsed
                .iter()
                .flatten()
                .all(|line| line.as_object().is_some_and(|object| object.len() == 16))
        );
    }
}
