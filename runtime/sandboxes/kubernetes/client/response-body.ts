import { StringDecoder } from 'node:string_decoder'

/** The largest expected response is a page of a list. */
const MAX_ANSWER_BYTES = 67_108_864
/** etcd stores no object larger than 1.5 MiB. */
const MAX_LINE_CHARACTERS = 4_194_304

type Body = AsyncIterable<Uint8Array>

export async function readText(body: Body): Promise<string> {
  const pieces: Uint8Array[] = []
  let bytes = 0
  for await (const piece of body) {
    bytes += piece.length
    if (bytes > MAX_ANSWER_BYTES) throw new Error('the response of the API server is too long')
    pieces.push(piece)
  }
  return Buffer.concat(pieces).toString('utf8')
}

/** Yields complete lines. An incomplete line at the end of the body is dropped. */
export async function* readLines(body: Body, onBytes: () => void): AsyncGenerator<string> {
  const decoder = new StringDecoder('utf8')
  let rest = ''
  for await (const piece of body) {
    onBytes()
    const lines = (rest + decoder.write(Buffer.from(piece))).split('\n')
    rest = lines.pop() ?? ''
    if (rest.length > MAX_LINE_CHARACTERS) throw new Error('a line of a watch is too long')
    for (const line of lines) if (line !== '') yield line
  }
}
