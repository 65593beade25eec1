//! Runs hyper's HTTP/2 tasks on the thread that owns the connection.

/// Spawns futures on the current thread, so they need not be `Send`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LocalExecutor;

impl<F: Future<Output = ()> + 'static> hyper::rt::Executor<F> for LocalExecutor {
    fn execute(&self, future: F) {
        tokio::task::spawn_local(future);
    }
}
