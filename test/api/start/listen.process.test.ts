import { once } from 'node:events'
import { createServer } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { announcement } from '../../../runtime/api/start/announce.ts'
import { listen } from '../../../runtime/api/start/listen.ts'
import { startApp } from '../harness.ts'

test('returns the URL of a free port', async () => {
  const { app } = startApp()
  const url = await listen(app, { host: '127.0.0.1', port: 0 })
  expect((await fetch(`${url}/healthz`)).status).toBe(200)
})

test('explains a port in use, with the remedy', async () => {
  const holder = createServer().listen(0, '127.0.0.1')
  onTestFinished(() => void holder.close())
  await once(holder, 'listening')
  const address = holder.address()
  const port = typeof address === 'object' && address ? address.port : 0
  // when
  const refused = listen(startApp().app, { host: '127.0.0.1', port })
  // then
  await expect(refused).rejects.toThrow(
    `Port ${port} of 127.0.0.1 is in use. Stop the program that uses it, or choose another port with AGENTWEAVER_PORT.`,
  )
})

test('explains an address of another machine, with the remedy', async () => {
  // 192.0.2.0/24 is reserved for documentation (RFC 5737), so no machine has it.
  await expect(listen(startApp().app, { host: '192.0.2.1', port: 0 })).rejects.toThrow('AGENTWEAVER_HOST')
})

test('prints the next steps for people, and one line for programs', () => {
  const service = {
    url: 'http://127.0.0.1:8080',
    socket: '/s/service.sock',
    stateDir: '/s',
    apiKeyFile: '/s/api-key',
    pid: 7,
  }
  expect(announcement('text', service)).toMatch(/listens on http:.*\/s\/api-key.*agentweaver run/s)
  expect(JSON.parse(announcement('json', service))).toEqual({
    url: 'http://127.0.0.1:8080',
    socket: '/s/service.sock',
    apiKeyFile: '/s/api-key',
    pid: 7,
  })
})
