import { once } from 'node:events'
import { describe, expect, it } from 'vitest'
import type { EgressDestination } from '../../contracts/egress.ts'
import { until } from '../helpers/until.ts'
import { HOST, proxyRig, received, servers, tlsThrough } from './proxy-rig.ts'
import { httpsServer, rawTlsServer, requestText, terminatingRig } from './terminate-rig.ts'

const BOTH: Partial<EgressDestination> = { phases: ['setup', 'work'] }
const PHASE_OVER = { rule: 'phase', reason: expect.stringContaining('opened in the phase setup') }

describe('the end of the phase setup', () => {
  it('closes a connection that is passed on unread, although the host is allowed in both phases', async () => {
    const { tls } = await servers()
    const { apply, generation, socketPath, denied } = await proxyRig({ ports: [tls], entry: BOTH })
    const open = () => tlsThrough(socketPath, `${HOST}:${tls}`, { servername: HOST })
    await apply(generation({ phase: 'setup' }))
    const socket = await open()
    const { closed, text } = received(socket)

    // Another state of the same phase closes nothing.
    await apply(generation({ phase: 'setup', restriction: 'normal' }))
    socket.write('still there')
    await until('the echo', () => text() === 'echo still there')
    await apply(generation({ phase: 'work' }))
    await closed

    expect(denied()).toMatchObject([PHASE_OVER])
    const again = await open()
    again.write('anew')
    expect(String(await once(again, 'data'))).toBe('echo anew')
    again.destroy()
  })

  it('closes a connection to a host of the phase setup, and refuses another one', async () => {
    const { tls } = await servers()
    const entry = { phases: ['setup' as const] }
    const { apply, generation, socketPath, denied } = await proxyRig({ ports: [tls], entry })
    const open = () => tlsThrough(socketPath, `${HOST}:${tls}`, { servername: HOST })
    await apply(generation({ phase: 'setup' }))
    const { closed } = received(await open())

    await apply(generation({ phase: 'work' }))
    await closed

    await expect(open()).rejects.toThrow('HTTP/1.1 403')
    expect(denied()[0]).toMatchObject({ rule: 'phase', remedy: expect.stringContaining('setup_commands') })
  })

  it('closes a websocket', async () => {
    const { port } = await rawTlsServer((socket) => {
      socket.write(
        'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n',
      )
      socket.on('data', (data) => socket.write(`echo ${data}`))
    })
    const rig = await terminatingRig(port, { entry: { ...BOTH, upgrade: 'websocket' } })
    await rig.apply(rig.generation({ phase: 'setup' }))
    const socket = await rig.open()
    const { closed, text } = received(socket)
    const upgrade =
      'Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n'
    socket.write(requestText(port, upgrade).replace('close', 'Upgrade'))
    await until('it is open', () => text().includes('101'))

    // Another state of the same phase closes nothing.
    await rig.apply(rig.generation({ phase: 'setup', restriction: 'normal' }))
    socket.write('ping')
    await until('the echo', () => text().endsWith('echo ping'))
    await rig.apply(rig.generation({ phase: 'work' }))
    await closed

    expect(rig.denied()).toMatchObject([PHASE_OVER])
  })

  it('keeps a connection that the proxy reads, and judges its next request by the phase work', async () => {
    const { port, seen } = await httpsServer()
    const rig = await terminatingRig(port, { entry: BOTH })
    await rig.apply(rig.generation({ phase: 'setup' }))
    const [kept, other] = [await rig.open(), await rig.open()]
    const [ofKept, ofOther] = [received(kept), received(other)]
    const request = requestText(port).replace('close', 'keep-alive')
    kept.write(request)
    await until('the first response', () => ofKept.text().includes('answer to GET /x'))

    await rig.apply(rig.generation({ phase: 'work' }))
    kept.write(request)
    await until('the second response', () => seen.length === 2)
    const [entry] = rig.generation().destinations
    await rig.apply(
      rig.generation({ destinations: [{ ...(entry as EgressDestination), phases: ['setup'] }] }),
    )
    await Promise.all([ofKept.closed, ofOther.closed])

    expect(seen).toHaveLength(2)
  })
})
