/** The clock of the machine, also in a test that replaces it (`vi.useFakeTimers`). */
const { setTimeout } = globalThis
const POLL_MS = 10

/**
 * Waits until the condition holds. At the deadline it fails and names the condition. The deadline is only for hangs: a
 * busy machine may need most of it.
 */
export async function until(
  what: string,
  condition: () => boolean | Promise<boolean>,
  deadlineMs = 60_000,
): Promise<void> {
  const end = Date.now() + deadlineMs
  while (!(await condition())) {
    if (Date.now() > end) throw new Error(`waited ${deadlineMs} ms in vain until ${what}`)
    await new Promise((resolve) => setTimeout(resolve, POLL_MS))
  }
}
