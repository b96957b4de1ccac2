/** Creates the API's database role with its grants. Runs as a Job before the API; see docs/deployment.md. */
import { databaseToken } from '../../azure/database-token.ts'
import { messageOf, SandboxError } from '../../kit/errors.ts'
import { createLog } from '../../kit/log.ts'
import { createRedactor } from '../../redaction/redactor.ts'
import { prepareDatabase } from '../../store/postgres/prepare-database.ts'
import { readSetupConfig } from './config.ts'

/** EX_CONFIG of sysexits(3). The API uses the same status. */
const EXIT_CONFIG = 78
const EXIT_FAILURE = 1

try {
  const { url, login, identity } = readSetupConfig(process.env)
  const { text: redact } = createRedactor({ secrets: [], pii: false })
  const write = (line: string) => void process.stderr.write(line)
  const log = createLog({ level: 'info', write, redact })
  const done = await prepareDatabase({ url, password: databaseToken(identity, log) }, login)
  log.info('the API can log in to its database', { ...login, role_was: done })
  process.exit(0)
} catch (error) {
  process.stderr.write(`${messageOf(error)}\n`)
  const isConfig = error instanceof SandboxError && error.code === 'invalid_config'
  process.exit(isConfig ? EXIT_CONFIG : EXIT_FAILURE)
}
