import { connect, createServer } from 'node:net'

/** The least that a proxy can do: connects each client of a Unix socket with one port, unread. */
const [path, port] = process.argv.slice(2)
const server = createServer((client) => {
  const upstream = connect(Number(port), '127.0.0.1')
  client.on('error', () => upstream.destroy()).pipe(upstream)
  upstream.on('error', () => client.destroy()).pipe(client)
})
server.listen(path, () => process.stdout.write('ready\n'))
