//! The programs of a scene, as hidden commands: they are processes of their own that can be stopped and killed.

use weir_drill::{
    AppOptions, DrillError, FloodOptions, NameServerOptions, ReceiveOptions, RelayOptions,
    VisitOptions,
};

use super::args::DrillAction;

/// Runs one until it is killed; a command for people is none.
pub(super) fn run(action: &DrillAction) -> Result<(), DrillError> {
    match action {
        DrillAction::App(args) => weir_drill::serve(&AppOptions {
            address: args.address,
            backlog: args.backlog,
            delay: args.delay.clone(),
            bytes: args.bytes,
            spin: args.spin,
            failing: args.failing.clone(),
            failing_health: args.failing_health,
            files: args.files,
            workers: args.workers,
            store: args.store,
            journal: args.journal.clone(),
            leak: args.leak,
            slow_page: args.slow_page.clone(),
            last: args.last,
            idle: args.idle.clone(),
        }),
        DrillAction::Visit(args) => weir_drill::visit(&VisitOptions {
            address: args.address,
            visitors: args.visitors,
            pause_millis: args.pause_millis,
            hold: args.hold,
            slow_millis: args.slow_millis,
            patience_millis: args.patience_millis,
            pages: args.pages,
            reuse_millis: args.reuse_millis,
        }),
        DrillAction::Flood(args) => weir_drill::flood(&FloodOptions {
            address: args.address,
            per_second: args.per_second,
            datagrams: args.datagrams,
            burst: args.burst,
        }),
        DrillAction::Receive(args) => weir_drill::receive(&ReceiveOptions {
            address: args.address,
            pause_micros: args.pause_micros,
            file: args.file.clone(),
        }),
        DrillAction::Names(args) => weir_drill::serve_names(&NameServerOptions {
            at: args.at,
            address: args.address.clone(),
            ttl: args.ttl.clone(),
            delay: args.delay.clone(),
        }),
        DrillAction::Relay(args) => weir_drill::relay(&RelayOptions {
            at: args.at,
            to: args.to,
            per_second: args.per_second,
        }),
        DrillAction::Guard { dir, seconds } => {
            weir_drill::guard(dir, std::time::Duration::from_secs(*seconds))
        }
        DrillAction::List { .. }
        | DrillAction::Run(_)
        | DrillAction::Host(_)
        | DrillAction::Clean => Ok(()),
    }
}
