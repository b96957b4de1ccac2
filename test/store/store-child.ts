import { silentLog } from '../../runtime/kit/log.ts'
import { openStore, type StoreLocation } from '../../runtime/store/open-store.ts'
import { anEvent } from './rows.ts'

/**
 * A separate process with a store. `open` opens and closes the store. `append` appends to a run until it is killed, and
 * prints every sequence after its commit. `upload` writes a chunk of a blob and then hangs.
 */
const [mode, location, runId = ''] = process.argv.slice(2)
const store = await openStore(JSON.parse(location ?? '') as StoreLocation, { log: silentLog })

async function append(): Promise<never> {
  for (;;) {
    const [stored] = await store.transaction((tx) => tx.appendEvents(runId, [anEvent('x')]))
    process.stdout.write(`${stored?.sequence}\n`)
  }
}

async function upload(): Promise<void> {
  await store.writeBlob(
    { runId, name: 'workspace', maxBytes: 100_000_000 },
    (async function* () {
      yield new Uint8Array(2_000_000)
      process.stdout.write('written\n')
      await new Promise(() => setInterval(() => undefined, 60_000))
    })(),
  )
}

if (mode === 'append') await append()
if (mode === 'upload') await upload()
await store.close()
