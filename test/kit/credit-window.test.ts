import { describe, expect, it } from 'vitest'
import { CreditWindow, costOf } from '../../runtime/kit/credit-window.ts'

describe('a credit window', () => {
  it('lets a sender take free credit, then makes it wait for returned credit', async () => {
    const window = new CreditWindow(10)
    expect(await window.take(10)).toBe(true)
    let isTaken = false
    const waiting = window.take(4).then((taken) => {
      isTaken = taken
    })

    window.give(3)
    await Promise.resolve()
    expect(isTaken).toBe(false)
    window.give(1)
    await waiting

    expect(isTaken).toBe(true)
  })

  it('reports a receiver that returns more credit than was taken', async () => {
    const window = new CreditWindow(10)
    await window.take(5)

    expect(window.give(5)).toBe(true)
    expect(window.give(1)).toBe(false)
  })

  it('ends every wait when it is closed', async () => {
    const window = new CreditWindow(1)
    const waits = [window.take(2), window.take(3)]

    window.close()

    expect(await Promise.all(waits)).toEqual([false, false])
    expect(await window.take(1)).toBe(false)
  })

  it('counts every piece as more than its bytes', () => {
    expect(costOf(new Uint8Array())).toBeGreaterThan(0)
    expect(costOf(new Uint8Array(100))).toBe(100 + costOf(new Uint8Array()))
  })
})
