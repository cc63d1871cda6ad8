//! The server: the allow list, and a thread for each connection.

use std::convert::Infallible;
use std::future::ready;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use hyper::server::conn::http1;
use hyper::service::service_fn;
use pagewell_base::network::Network;

use super::connections::{Connections, TURN};
use super::place::{Listener, Place};
use super::site::Site;
use super::socket::Socket;
use super::token::Token;
use crate::acceptor::Acceptor;
use crate::history::{History, Sampler};
use crate::status::Status;

/// Bytes of a request's head: hyper's minimum.
const REQUEST_BYTES_MAX: usize = 8 << 10;

const FIELDS_MAX: usize = 64;

/// From accepting a connection to its last byte in each direction.
const CONNECTION_TIME: Duration = Duration::from_secs(5);

/// Options of an HTTP server.
pub struct Options {
    /// Its address.
    pub place: Place,
    /// Networks allowed besides this machine.
    pub allow: Vec<Network>,
    /// The token that requests need.
    pub token: Option<Token>,
    /// The process' description of itself.
    pub status: Arc<Status>,
}

/// An endpoint, until dropped. The end of the process may cut off answers.
pub struct HttpServer {
    /// Its actual address.
    pub place: Place,
    _acceptor: Acceptor,
    _sampler: Sampler,
}

impl HttpServer {
    /// Starts to listen, and to keep the history.
    ///
    /// # Errors
    ///
    /// It cannot listen or start threads.
    pub fn start(options: Options) -> std::io::Result<Self> {
        Self::start_with(options, Connections::new(TURN))
    }

    fn start_with(options: Options, connections: Connections) -> std::io::Result<Self> {
        let listener = Listener::bind(&options.place)?;
        let place = listener.place()?;
        let history = Arc::new(History::new());
        let site = Arc::new(Site {
            token: options.token,
            status: options.status,
            history: Arc::clone(&history),
            checks_host: matches!(place, Place::Tcp(_)),
        });
        let allow = options.allow;
        let connections = Arc::new(connections);
        let descriptor = listener.descriptor()?;
        Ok(Self {
            place,
            _acceptor: Acceptor::start("http", descriptor, move || {
                let (stream, peer) = listener.accept()?;
                if peer.is_none_or(|peer| allows(&allow, peer)) {
                    begin(stream, peer, &connections, &site);
                }
                Ok(())
            })?,
            _sampler: Sampler::start(history)?,
        })
    }
}

fn allows(allow: &[Network], address: IpAddr) -> bool {
    address.to_canonical().is_loopback() || allow.iter().any(|network| network.contains(address))
}

fn begin(stream: OwnedFd, peer: Option<IpAddr>, connections: &Arc<Connections>, site: &Arc<Site>) {
    let stream = Arc::new(stream);
    let place = connections.enter(peer, &stream);
    let site = Arc::clone(site);
    // Without a thread the connection closes.
    let _ = thread::Builder::new()
        .name("http connection".to_owned())
        .spawn(move || {
            let _place = place;
            // A peer that is gone or too slow gets no error.
            let _ = serve(stream, &site);
        });
}

fn serve(stream: Arc<OwnedFd>, site: &Site) -> std::io::Result<()> {
    let socket = Socket::new(stream, Instant::now() + CONNECTION_TIME)?;
    let service = service_fn(|request| ready(Ok::<_, Infallible>(site.answer(&request))));
    let mut settings = http1::Builder::new();
    settings
        .keep_alive(false)
        .half_close(true)
        .max_headers(FIELDS_MAX)
        .max_buf_size(REQUEST_BYTES_MAX);
    let connection = settings.serve_connection(socket.clone(), service);
    // hyper has answered invalid requests.
    let _ = socket.drive(connection)?;
    socket.finish()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpStream};
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::http::connections::CONNECTIONS_MAX;

    fn start_at(place: Place, turn: Duration) -> HttpServer {
        let options = Options {
            place,
            allow: Vec::new(),
            token: None,
            status: Arc::new(Status::new("serve")),
        };
        HttpServer::start_with(options, Connections::new(turn)).unwrap()
    }

    fn start() -> (HttpServer, SocketAddr) {
        start_of(TURN)
    }

    fn start_of(turn: Duration) -> (HttpServer, SocketAddr) {
        let server = start_at(Place::Tcp("127.0.0.1:0".parse().unwrap()), turn);
        let Place::Tcp(address) = server.place else {
            panic!("{}", server.place);
        };
        (server, address)
    }

    fn ask(address: SocketAddr, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn requests_and_what_is_none_are_answered() {
        let (_server, address) = start();
        let long = format!(
            "GET /{} HTTP/1.1\r\n\r\n",
            "a".repeat(2 * REQUEST_BYTES_MAX)
        );
        let fields = "a: b\r\n".repeat(FIELDS_MAX + 1);
        let many = format!("GET / HTTP/1.1\r\n{fields}\r\n");
        let body = "GET /healthz HTTP/1.1\r\nContent-Length: 9\r\n\r\nfirst\r\nyes";
        for (request, status) in [
            ("GET /healthz HTTP/1.1\r\n\r\n", "200"),
            ("GET /healthz HTTP/1.0\n\n", "200"),
            (body, "200"),
            ("HEAD /healthz HTTP/1.1\r\n\r\n", "200"),
            ("GET /other HTTP/1.1\r\n\r\n", "404"),
            ("PUT / HTTP/1.1\r\n\r\n", "405"),
            ("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", "421"),
            ("GET http://evil.example/ HTTP/1.1\r\n\r\n", "400"),
            ("nonsense\r\n\r\n", "400"),
            ("\x16\x03\x01\0\n\n", "400"),
            ("GET / HTTP/1.1\r\nHost: \u{1}\r\n\r\n", "400"),
            (&long, "4"),
            (&many, "431"),
        ] {
            let text = ask(address, request.as_bytes());
            let shown = &request[..request.len().min(60)];
            let found = text.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..));
            assert!(
                found.unwrap_or_default().starts_with(status),
                "{shown}: {text}"
            );
        }
        let text = ask(
            address,
            b"GET /healthz HTTP/1.1\r\n\r\nGET /stat.json HTTP/1.1\r\n\r\n",
        );
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert_eq!(body, "alive\n", "one request a connection");
        let head = head.to_ascii_lowercase();
        for field in [
            "content-length: 6",
            "connection: close",
            "cache-control: no-store",
        ] {
            assert!(head.contains(field), "{head}");
        }
        let text = ask(address, b"HEAD /stat.json HTTP/1.1\r\n\r\n");
        assert!(
            text.ends_with("\r\n\r\n") && !text.contains("content-length: 0"),
            "{text}"
        );
    }

    /// A connection from another address of this machine.
    fn connect_from(from: [u8; 4], address: SocketAddr) -> TcpStream {
        use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&socket, &SocketAddr::from((from, 0))).unwrap();
        connect(&socket, &address).unwrap();
        socket.into()
    }

    #[test]
    fn slow_clients_cannot_take_all_places() {
        let (server, address) = start();
        let slow: Vec<TcpStream> = (0..2 * CONNECTIONS_MAX)
            .map(|_| {
                let mut stream = connect_from([127, 0, 0, 2], address);
                stream.write_all(b"GET / HT").unwrap();
                stream
            })
            .collect();
        for round in 0..2 * CONNECTIONS_MAX {
            let text = ask(address, b"GET /healthz HTTP/1.1\r\n\r\n");
            assert!(text.starts_with("HTTP/1.1 200"), "{round}: {text}");
        }
        drop(slow);
        drop(server);
    }

    #[test]
    fn a_thousand_at_once_are_all_answered() {
        // On a busy machine no thread of the server may run within a shorter turn.
        let (server, address) = start_of(Duration::from_secs(60));
        let mut asking: Vec<TcpStream> = Vec::new();
        for _ in 0..10 {
            for _ in 0..100 {
                let mut stream = TcpStream::connect(address).unwrap();
                stream.write_all(b"GET /healthz HTTP/1.1\r\n\r\n").unwrap();
                asking.push(stream);
            }
            for mut stream in asking.drain(..) {
                let mut text = String::new();
                stream.read_to_string(&mut text).unwrap();
                assert!(text.starts_with("HTTP/1.1 200"), "{text}");
            }
        }
        drop(server);
    }

    #[test]
    fn a_unix_socket_answers_to_any_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("http");
        let server = start_at(Place::Unix(path.clone()), TURN);
        let mut stream = UnixStream::connect(&path).unwrap();
        let request = b"GET /healthz HTTP/1.1\r\nHost: files.example\r\n\r\n";
        stream.write_all(request).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert!(text.starts_with("HTTP/1.1 200"), "{text}");
        drop(server);
        assert!(!path.exists());
    }

    #[test]
    fn stop_closes_the_listener() {
        let (server, address) = start();
        drop(server);
        assert!(TcpStream::connect(address).is_err());
    }

    #[test]
    fn only_loopback_and_allowed_networks_are_answered() {
        let networks = ["10.0.0.0/8".parse().unwrap()];
        assert!(allows(&[], "127.0.0.2".parse().unwrap()));
        assert!(allows(&networks, "::ffff:127.0.0.1".parse().unwrap()));
        assert!(allows(&networks, "10.1.1.1".parse().unwrap()));
        assert!(!allows(&networks, "11.1.1.1".parse().unwrap()));
        assert!(!allows(&[], "10.1.1.1".parse().unwrap()));
    }
}
