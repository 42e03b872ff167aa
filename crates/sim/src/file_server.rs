//! A file server that serves one request after the other: whoever comes while it works waits in a queue. It has no cache, never gets slower
//! under load, and forgets nothing. (`cost.rs` has another one, which serves all at once.)

/// A server. Both costs add up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FileServer {
    /// Seconds that it works for a request, without what depends on its length.
    pub request_s: f64,
    /// Seconds that it works for a byte.
    pub byte_s: f64,
}

impl FileServer {
    /// The server that needs so long for requests alone.
    #[must_use]
    pub fn of_requests(requests: f64, seconds: f64) -> Self {
        Self { request_s: seconds / requests, byte_s: 0.0 }
    }

    /// The server that needs so long for bytes alone.
    #[must_use]
    pub fn of_bytes(bytes: f64, seconds: f64) -> Self {
        Self { request_s: 0.0, byte_s: seconds / bytes }
    }

    /// When the last one of `clients` that come at the same time has its answers, in seconds: `requests` requests each, of `bytes` bytes
    /// together.
    #[must_use]
    pub fn last_s(&self, clients: f64, requests: f64, bytes: f64) -> f64 {
        clients * (requests * self.request_s + bytes * self.byte_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_wait_for_each_other() {
        let server = FileServer { request_s: 0.5, byte_s: 0.01 };
        assert_eq!(server.last_s(1.0, 2.0, 300.0), 4.0);
        assert_eq!(server.last_s(10.0, 2.0, 300.0), 40.0);
        assert_eq!(FileServer::of_requests(10.0, 40.0).last_s(1.0, 1.0, 1e9), 4.0);
        assert_eq!(FileServer::of_bytes(10.0, 40.0).last_s(1.0, 1e9, 1.0), 4.0);
    }
}
