import { createServer } from 'node:http'

/** AgentHosts without events: an event stream that stays open, and an empty response to every other request. */
const server = createServer((request, response) => {
  if (request.method !== 'GET') return void response.writeHead(200, { 'content-type': 'application/json' }).end('{}')
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  response.write(': open\n\n')
})
server.listen(process.argv[2], () => process.stdout.write('ready\n'))
