import { createReadStream, readFileSync } from 'node:fs'
import { createServer } from 'node:https'

/** An npm registry of the packages in a list. Its arguments: port, folder with certificate and key, file with the list. */
const [port, folder, list] = process.argv.slice(2)
const options = { cert: readFileSync(`${folder}/server.crt`), key: readFileSync(`${folder}/server.key`) }
/** Per name: `{version, integrity, file}` of each version. */
const packages = new Map(Object.entries(JSON.parse(readFileSync(list, 'utf8'))))

const server = createServer(options, ({ url, headers }, response) => {
  const [name, tarball] = decodeURIComponent(url.slice(1)).split('/-/')
  const versions = packages.get(name) ?? []
  const wanted = versions.find(({ version }) => tarball === `${version}.tgz`)
  if (wanted) createReadStream(wanted.file).pipe(response)
  else if (versions.length > 0 && tarball === undefined) response.end(packument(name, versions, headers.host))
  else response.writeHead(404).end()
})

const packument = (name, versions, host) =>
  JSON.stringify({
    name,
    'dist-tags': { latest: versions[0].version },
    versions: Object.fromEntries(
      versions.map(({ version, integrity }) => {
        const tarball = `https://${host}/${name}/-/${version}.tgz`
        return [version, { name, version, dist: { tarball, integrity } }]
      }),
    ),
  })

server.listen(Number(port), '127.0.0.1', () => process.stdout.write('ready\n'))
