import { readFileSync } from 'node:fs'
import { createServer } from 'node:https'

/** A TLS server that sends as many bytes as the path says. Its certificate and key are in a folder. */
const [port, folder] = process.argv.slice(2)
const options = { cert: readFileSync(`${folder}/server.crt`), key: readFileSync(`${folder}/server.key`) }
const block = Buffer.alloc(65_536, 'a')

const server = createServer(options, (request, response) => {
  let left = Number(request.url.slice(1))
  response.writeHead(200, { 'content-length': left })
  const send = () => {
    while (left > 0) {
      const piece = block.subarray(0, Math.min(left, block.length))
      left -= piece.length
      if (!response.write(piece)) return
    }
    response.end()
  }
  response.on('drain', send)
  send()
})
server.listen(Number(port), '127.0.0.1', () => process.stdout.write('ready\n'))
