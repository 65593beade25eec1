//! The list of receivers. A new kind is one file and one line in this list.

mod alertmanager;
mod discord;
mod goalert;
mod icinga2;
mod jsm;
mod matrix;
mod nagios_cmd;
mod nsca;
mod ntfy;
mod pagerduty;
mod pushover;
mod slack;
mod smtp;
mod teams;
mod telegram;
mod webhook;

use crate::settings::ReceiverSpec;

/// All kinds of receivers, in the order of the documentation.
pub const RECEIVERS: &[ReceiverSpec] = &[
    smtp::SPEC,
    webhook::SPEC,
    alertmanager::SPEC,
    pagerduty::SPEC,
    jsm::SPEC,
    goalert::SPEC,
    slack::SPEC,
    teams::SPEC,
    discord::SPEC,
    telegram::SPEC,
    ntfy::SPEC,
    matrix::SPEC,
    pushover::SPEC,
    nagios_cmd::SPEC,
    nsca::SPEC,
    icinga2::SPEC,
];
