//! Maintenance windows: once or weekly, each in its zone.

use weir_tables::Micros;

use crate::civil_time::{parse_moment, zone};
use crate::hours::WeeklyHours;
use crate::pattern::matches_any;
use crate::policy::Window;
use crate::{Finding, HostLock};

/// A window whose times are read.
#[derive(Clone, Debug)]
pub(crate) struct WindowPlan {
    pub(crate) name: String,
    once: Option<(Micros, Micros)>,
    weekly: WeeklyHours,
    rules: Vec<String>,
    hosts: Vec<String>,
}

impl WindowPlan {
    /// Reads a window's times; what is wrong with them.
    pub(crate) fn compile(window: &Window) -> Result<Self, WindowFault> {
        let zone = zone(&window.zone).ok_or(WindowFault::Zone)?;
        let once = match &window.once {
            None => None,
            Some((start, end)) => {
                let start = parse_moment(&zone, start).ok_or(WindowFault::Once)?;
                let end = parse_moment(&zone, end).ok_or(WindowFault::Once)?;
                (start < end).then_some(()).ok_or(WindowFault::Once)?;
                Some((start, end))
            }
        };
        let weekly = WeeklyHours::parse(&window.weekly, zone).map_err(WindowFault::Weekly)?;
        let (rules, hosts) = (window.rules.clone(), window.hosts.clone());
        Ok(Self { name: window.name.clone(), once, weekly, rules, hosts })
    }

    /// Whether notices of a finding wait now.
    pub(crate) fn mutes(&self, finding: &Finding, now: Micros) -> bool {
        self.is_active(now)
            && matches_any(&self.rules, &finding.rule)
            && matches_any(&self.hosts, &finding.host)
    }

    /// The lock that it is for repairs while it is on.
    pub(crate) fn lock(&self, now: Micros) -> Option<HostLock> {
        let (hosts, rules) = (self.hosts.clone(), self.rules.clone());
        let name = format!("in maintenance window {}", self.name);
        self.is_active(now).then_some(HostLock { name, hosts, rules, until_us: i64::MAX })
    }

    fn is_active(&self, now: Micros) -> bool {
        self.once.is_some_and(|(start, end)| start <= now && now < end) || self.weekly.contains(now)
    }
}

/// What is wrong with a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WindowFault {
    /// The zone is unknown.
    Zone,
    /// `once` is no two moments in order.
    Once,
    /// `weekly` has no hours, and why.
    Weekly(String),
}
