// Commands that a sandbox runs to try its network.

/** Asks the relay of the sandbox for a tunnel and prints the first line and the reason, or the error. */
export const connectTo = (target: string) =>
  `node -e '
    const { hostname, port } = new URL(process.env.HTTPS_PROXY ?? "http://127.0.0.1:3128")
    const asked = require("node:http").request({ host: hostname, port, method: "CONNECT", path: "${target}", headers: { host: "${target}" } })
    const say = ({ statusCode, headers }) => { console.log(statusCode, headers["agentweaver-egress"]); process.exit() }
    asked.on("connect", say).on("response", say).on("error", ({ code }) => { console.log("error", code); process.exit() }).end()
  '`

/** Asks for a page with the variables of the environment, and prints the status and its words, or the error. */
export const ask = (url: string) =>
  `node -e 'fetch("${url}").then(({ status, statusText }) => console.log(status, statusText), (error) => console.log("error", String(error.cause ?? error)))'`

/**
 * Holds a TLS connection through the relay and says when it is closed, then asks for the next one until that is refused. The
 * proxy itself closes a connection without a request after ten seconds, so each is replaced after two.
 */
export const holdTunnels = (host: string) =>
  `node -e '
    const { hostname, port } = new URL(process.env.HTTPS_PROXY ?? "http://127.0.0.1:3128")
    const target = "${host}:443"
    const next = () => require("node:http").request({ host: hostname, port, method: "CONNECT", path: target, headers: { host: target } })
      .on("connect", ({ statusCode, headers }, socket) => {
        if (statusCode !== 200) { console.log("refused", statusCode, headers["agentweaver-egress"]); process.exit() }
        const tls = require("node:tls").connect({ socket, servername: "${host}" }, () => console.log("open"))
        const timer = setTimeout(() => { next(); tls.removeAllListeners("close"); tls.destroy() }, 2000)
        tls.on("error", () => {}).on("close", () => { clearTimeout(timer); console.log("closed"); next() })
      }).end()
    next()'`

/** Connects without the relay. */
export const direct = (host: string, port: number) =>
  `node -e 'const s = require("node:net").connect(${port}, "${host}");
    const end = (what) => { console.log(what); process.exit() };
    s.setTimeout(4000, () => end("closed")).on("connect", () => end("open")).on("error", () => end("closed"))'`

/**
 * Serves the ports of name servers and of HTTP on the loopback interface, which AgentHost shares, and prints what they receive.
 * Sends itself a control to each, and asks the resolver of the pod for a name.
 */
export const serveLoopback = () =>
  `node -e '
    const at = "127.0.0.1"
    const shown = (bytes) => bytes.toString("latin1").replace(/[^a-z]+/g, " ")
    const udp = require("node:dgram").createSocket("udp4")
    udp.on("error", ({ code }) => console.log("refused udp 53", code))
      .on("message", (bytes) => console.log("received udp 53", shown(bytes)))
      .bind(53, at, () => { udp.send("control", 53, at); require("node:dns").lookup("control.example.com", () => {}) })
    for (const port of [53, 80, 443, 853, 8080]) {
      const net = require("node:net")
      net.createServer((socket) => socket.on("error", () => {}).once("data", (bytes) => console.log("received tcp", port, shown(bytes))))
        .on("error", ({ code }) => console.log("refused tcp", port, code))
        .listen(port, at, () => net.connect(port, at).end("control"))
    }'`
