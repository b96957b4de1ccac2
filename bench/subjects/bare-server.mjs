import { createServer } from 'node:http'

// The least that a Node HTTP server can be: what our processes are measured against.
const server = createServer((_request, response) => response.end('ok'))
server.listen(process.argv[2], () => process.stdout.write('listening\n'))
