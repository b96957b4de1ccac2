import { setImmediate as nextTurn } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import {
  HandledManifest,
  ManifestRoom,
  ManifestRoomTaken,
  SMALL_MANIFEST_BYTES,
} from '../../runtime/api/runs/checkpoints/manifest-room.ts'

const never = () => new AbortController().signal
const LARGE = SMALL_MANIFEST_BYTES + 1

/** A room, and the order in which owners got it. Each stays until the test lets the next one in. */
function aRoom() {
  const room = new ManifestRoom()
  const order: string[] = []
  const leaving: (() => void)[] = []
  const enter = (owner: string, signal = never()) =>
    room.enter(owner, signal).then((leave) => {
      order.push(owner)
      leaving.push(leave)
    })
  const next = async () => {
    leaving.shift()?.()
    await nextTurn()
  }
  return { room, order, enter, next }
}

describe('the room for large manifests', () => {
  it('is given to one at a time, and owners take turns', async () => {
    const { order, enter, next } = aRoom()
    await enter('eve')
    void enter('eve')
    void enter('eve')
    void enter('ada')
    await nextTurn()
    expect(order).toEqual(['eve'])

    await next()
    await next()
    await next()

    expect(order).toEqual(['eve', 'eve', 'ada', 'eve'])
  })

  it('is not given to a manifest that stopped waiting', async () => {
    const { order, enter, next } = aRoom()
    await enter('ada')
    const stop = new AbortController()
    const waiting = enter('eve', stop.signal)
    void enter('bob')

    stop.abort(new Error('too late'))
    await expect(waiting).rejects.toThrow('too late')
    await next()

    expect(order).toEqual(['ada', 'bob'])
  })

  it('is free for others after it was left twice', async () => {
    const { room, order, enter } = aRoom()
    const leave = await room.enter('ada', never())
    leave()
    leave()
    await enter('bob')
    void enter('eve')
    await nextTurn()

    expect(order).toEqual(['bob'])
  })
})

describe('a manifest', () => {
  const handled = (room: ManifestRoom, waitMs = 0) =>
    new HandledManifest({ room, owner: 'ada', signal: never(), waitMs })

  it('does not wait if it is small', async () => {
    const { room, enter } = aRoom()
    await enter('eve')

    await handled(room).need(SMALL_MANIFEST_BYTES)
  })

  it('is refused if it is large and the room does not become free in time', async () => {
    const { room, enter } = aRoom()
    await enter('eve')
    const source = async function* () {
      yield new Uint8Array(SMALL_MANIFEST_BYTES)
      yield new Uint8Array(1)
    }

    await expect(handled(room).collect(source())).rejects.toBeInstanceOf(ManifestRoomTaken)
  })

  it('has the room until it is done', async () => {
    const { room, order, enter } = aRoom()
    const large = handled(room, 60_000)
    await large.need(LARGE)
    await large.need(2 * LARGE)
    const waiting = enter('eve')
    await nextTurn()
    expect(order).toEqual([])

    large.done()

    await waiting
    expect(order).toEqual(['eve'])
  })
})
