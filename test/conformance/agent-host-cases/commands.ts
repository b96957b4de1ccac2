import { expect, it } from 'vitest'
import { ExecRequest } from '../../../contracts/exec.ts'
import { aConfiguredHost, collect, exited, never, type Subject, textOf } from './host.ts'

export function commandCases(subject: Subject): void {
  it('runs a command once per id, and rejects the id with a different body', async () => {
    const host = await aConfiguredHost(subject)
    const request = ExecRequest.parse({ command: 'echo x >> count.txt; cat count.txt' })

    await Promise.all([1, 2, 3].map(() => host.client.startCommand('c1', request, never)))
    const events = await collect(host, exited('c1'))
    await host.client.startCommand('c1', request, never)
    const other = host.client.startCommand('c1', { ...request, command: 'id' }, never)

    await expect(other).rejects.toMatchObject({ code: 'conflict' })
    expect(await textOf(host, 'count.txt')).toBe('x\n')
    const ofCommand = events.filter(({ commandId }) => commandId === 'c1')
    expect(ofCommand.map(({ event }) => event.type)).toEqual(['command.output', 'command.exited'])
  })

  it('keeps a command running when its caller disconnects, and kills it when it is cancelled', async () => {
    const host = await aConfiguredHost(subject)
    const leaving = new AbortController()
    await host.client.startCommand(
      'c1',
      ExecRequest.parse({ command: 'cat fifo 2>/dev/null; echo kept' }),
      leaving.signal,
    )
    leaving.abort()

    const kept = await collect(host, exited('c1'))
    await host.client.startCommand(
      'c2',
      ExecRequest.parse({ command: 'sleep 300', timeoutMs: 400_000 }),
      never,
    )
    await host.client.cancelCommand('c2', never)
    const killed = await collect(host, exited('c2'), { after: kept.length })

    expect(kept.at(-1)?.event).toMatchObject({ data: { result: { exitCode: 0 } } })
    expect(killed.at(-1)?.event).toMatchObject({ data: { result: { reason: 'cancelled' } } })
  })
}
