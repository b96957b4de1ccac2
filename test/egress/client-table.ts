import type { SiteName } from './package-site.ts'

/** A program that installs or fetches something through the proxy. In commands, `URL` is the address of the site. */
export interface Client {
  readonly name: string
  readonly site: SiteName
  /** Succeeds where the program is installed. */
  readonly test: string
  /** Reads what the entry allows. */
  readonly reads: string
  readonly expected: string
  /** Tries what the entry does not allow. */
  readonly writes: string
  /** Whether it prints why, or only the status of the response. */
  readonly prints: 'the reason' | 'the status'
  readonly refusal: RegExp
  /** Requests of the second command that may reach the server. */
  readonly permitted: RegExp
}

const PYTHON = '/usr/bin/python3'
const NOTHING = /^$/
const MAVEN_GOAL = 'com.example:answer-maven-plugin:1.0:answer'
const GH = 'GH_TOKEN=ghp_0123456789012345678901234567890123456789 gh'

/** Clients that the tests run, if the machine has them. */
export const CLIENTS: readonly Client[] = [
  {
    name: 'npm',
    site: 'npm',
    test: 'npm --version',
    reads: `npm ci --silent && node -p "require('@scope/pkg-a')"`,
    expected: '42',
    writes:
      'cd node_modules/@scope/pkg-a && npm version --silent 2.0.0 && npm publish --userconfig /workspace/.npmrc',
    prints: 'the reason',
    refusal: /the method PUT is not allowed for this host/,
    permitted: /^GET npm /,
  },
  {
    name: 'pip',
    site: 'pypi',
    test: `${PYTHON} -m pip --version`,
    reads: `${PYTHON} -m pip install -q --disable-pip-version-check --no-cache-dir --target py --index-url URL/simple/ pkg-b && PYTHONPATH=py ${PYTHON} -c 'import pkg_b; print(pkg_b.ANSWER)'`,
    expected: '42',
    writes: `${PYTHON} -m pip download --disable-pip-version-check --no-cache-dir --retries 0 URL/private/pkg_b-1.0-py3-none-any.whl`,
    prints: 'the reason',
    refusal: /GET is not allowed for the path \/private\/pkg_b/,
    permitted: NOTHING,
  },
  {
    name: 'git',
    site: 'git',
    test: 'git --version',
    reads: 'git clone -q URL/repo.git && cat repo/README',
    expected: 'from git',
    writes: 'cd repo && git push -q origin HEAD:refs/heads/other',
    prints: 'the status',
    refusal: /The requested URL returned error: 403/,
    permitted: /^GET git \/repo\.git\/info\/refs$/,
  },
  {
    name: 'cargo (and curl to publish)',
    site: 'crates',
    test: 'cargo --version',
    reads: 'cd crate && cargo fetch -q && ls ~/.cargo/registry/src/*/',
    expected: 'pkg-d-1.0.0',
    writes: 'curl -sS -X PUT -d x URL/api/v1/crates/new',
    prints: 'the reason',
    refusal: /the method PUT is not allowed for this host/,
    permitted: NOTHING,
  },
  {
    name: 'go',
    site: 'go',
    test: '/usr/local/go/bin/go version',
    reads:
      'cd module && GOTOOLCHAIN=local GOFLAGS=-mod=mod GOSUMDB=off GOPROXY=URL /usr/local/go/bin/go mod download -json go.example.com/pkg-c@v1.0.0 | grep -o \'"Version": "v1.0.0"\'',
    expected: '"Version": "v1.0.0"',
    writes:
      'cd module && GOTOOLCHAIN=local GOSUMDB=off GOPROXY=UNLISTED /usr/local/go/bin/go mod download go.example.com/pkg-d@v1.0.0',
    prints: 'the reason',
    refusal: /Connection to unlisted\.agentweaver-test\.com:\d+ refused/,
    permitted: NOTHING,
  },
  {
    name: 'apt',
    site: 'debian',
    test: 'apt-get --version',
    reads:
      'cd apt && export APT_CONFIG=/workspace/apt/apt.conf && apt-get -qq update && apt-get -qq download pkg-e && ls *.deb',
    expected: 'pkg-e_1.0_all.deb',
    writes: 'APT_CONFIG=/workspace/apt/apt.conf /usr/lib/apt/apt-helper download-file URL/private /tmp/x',
    prints: 'the reason',
    refusal: /GET is not allowed for the path \/private/,
    permitted: NOTHING,
  },
  {
    name: 'curl',
    site: 'pypi',
    test: 'curl --version',
    reads: 'curl -sS URL/simple/pkg-b/ | grep -q pkg_b && echo pkg_b',
    expected: 'pkg_b',
    writes: 'curl -sS -X POST -d x URL/simple/',
    prints: 'the reason',
    refusal: /the method POST is not allowed for this host/,
    permitted: NOTHING,
  },
  {
    name: 'wget',
    site: 'pypi',
    test: 'wget --version',
    reads: 'wget -q -O - URL/simple/pkg-b/ | grep -q pkg_b && echo pkg_b',
    expected: 'pkg_b',
    writes: 'wget -nv --tries 1 --post-data x URL/simple/',
    prints: 'the reason',
    refusal: /the method POST is not allowed for this host/,
    permitted: NOTHING,
  },
  {
    name: 'fetch of Node',
    site: 'pypi',
    test: 'node --version',
    reads: `node -e 'fetch("URL/simple/pkg-b/").then((r) => r.text()).then((text) => console.log(text.match(/pkg_b/)[0]))'`,
    expected: 'pkg_b',
    writes: `node -e 'fetch("URL/simple/", { method: "POST", body: "x" }).then((r) => console.log(r.status, r.statusText))'`,
    prints: 'the reason',
    refusal: /405 .*the method POST is not allowed for this host/,
    permitted: NOTHING,
  },
  {
    name: 'urllib of Python',
    site: 'pypi',
    test: `${PYTHON} --version`,
    reads: `${PYTHON} -c 'import urllib.request; print("pkg_b" in urllib.request.urlopen("URL/simple/pkg-b/").read().decode())'`,
    expected: 'True',
    writes: `${PYTHON} -c 'import urllib.request; urllib.request.urlopen("URL/simple/", b"x")'`,
    prints: 'the reason',
    refusal: /the method POST is not allowed for this host/,
    permitted: NOTHING,
  },
  {
    name: 'Java',
    site: 'pypi',
    test: 'java --version',
    reads: 'java Get.java URL/simple/pkg-b/ 2>/dev/null',
    expected: '200',
    writes: 'java Get.java URL/private/',
    prints: 'the reason',
    refusal: /GET is not allowed for the path \/private/,
    permitted: NOTHING,
  },
  {
    name: 'gh 2.23, its command `gh api`',
    site: 'github',
    test: 'gh --version',
    reads: `${GH} api repos/o/n --jq .default_branch && ${GH} api repos/o/n/pulls -f title=a -f head=b -f base=main --jq .number`,
    expected: 'main\n7',
    writes: `${GH} api -X PUT repos/o/n/contents/file; ${GH} repo view o/n; ${GH} pr list -R o/n`,
    prints: 'the reason',
    refusal: /the method PUT is not allowed[\s\S]*POST is not allowed for the path \/graphql/,
    permitted: NOTHING,
  },
]

const NPM_PROJECT = 'mkdir -p NAME && cp package.json .npmrc NAME && cd NAME'
const PNPM = 'node TOOLS/js/node_modules/pnpm/bin/pnpm.cjs'
const YARN = 'node TOOLS/js/node_modules/yarn/bin/yarn.js'
const UV = `TOOLS/py/bin/uv pip install -q --no-cache --python ${PYTHON}`
const MAVEN = 'TOOLS/maven/apache-maven-3.9.16/bin/mvn'
const DENO = 'TOOLS/js/node_modules/@deno/linux-x64-glibc/deno'
const WITH_TOOLS = `PYTHONPATH=TOOLS/py ${PYTHON} -c`

/**
 * Clients that the tests install from the public registries, and some of the machine that are slow:
 * `npm run test:attack -- clients`.
 */
export const INSTALLED_CLIENTS: readonly Client[] = [
  {
    name: 'pnpm',
    site: 'npm',
    test: `${PNPM} --version`,
    reads: `${NPM_PROJECT.replaceAll('NAME', 'pnpm')} && ${PNPM} install --silent && node -p "require('@scope/pkg-a')"`,
    expected: '42',
    writes: `cd pnpm && ${PNPM} version --silent 3.0.0; ${PNPM} publish --no-git-checks`,
    prints: 'the reason',
    refusal: /the method PUT is not allowed for this host/,
    permitted: /^GET npm /,
  },
  {
    name: 'yarn 1',
    site: 'npm',
    test: `${YARN} --version`,
    reads: `${NPM_PROJECT.replaceAll('NAME', 'yarn')} && ${YARN} install --silent --non-interactive 2>/dev/null && node -p "require('@scope/pkg-a')"`,
    expected: '42',
    writes: `cd yarn && ${YARN} publish --non-interactive --new-version 3.0.0`,
    prints: 'the status',
    refusal: /returned a 405/,
    permitted: /^GET npm /,
  },
  {
    name: 'uv',
    site: 'pypi',
    test: 'TOOLS/py/bin/uv --version',
    reads: `${UV} --target uv --index-url URL/simple/ pkg-b && PYTHONPATH=uv ${PYTHON} -c 'import pkg_b; print(pkg_b.ANSWER)'`,
    expected: '42',
    writes: `${UV} --target uv URL/private/pkg_b-1.0-py3-none-any.whl`,
    prints: 'the reason',
    refusal: /GET\s+is\s+not\s+allowed\s+for\s+the\s+path/,
    permitted: NOTHING,
  },
  {
    name: 'requests of Python',
    site: 'pypi',
    test: `${WITH_TOOLS} 'import requests'`,
    reads: `${WITH_TOOLS} 'import requests; print("pkg_b" in requests.get("URL/simple/pkg-b/").text)'`,
    expected: 'True',
    writes: `${WITH_TOOLS} 'import requests; requests.post("URL/simple/", data="x").raise_for_status()'`,
    prints: 'the reason',
    refusal: /the method POST is not allowed for this host/,
    permitted: NOTHING,
  },
  {
    name: 'httpx of Python',
    site: 'pypi',
    test: `${WITH_TOOLS} 'import httpx'`,
    reads: `${WITH_TOOLS} 'import httpx; print("pkg_b" in httpx.get("URL/simple/pkg-b/").text)'`,
    expected: 'True',
    writes: `${WITH_TOOLS} 'import httpx; print(httpx.post("URL/simple/", data="x").reason_phrase)'`,
    prints: 'the reason',
    refusal: /the method POST is not allowed for this host/,
    permitted: NOTHING,
  },
  {
    name: 'Maven 3.8',
    site: 'maven',
    test: 'mvn --version && javac --version',
    reads: `cd java && mvn -q -B -s settings.xml ${MAVEN_GOAL} 2>/dev/null | grep -o 42`,
    expected: '42',
    writes: `cd java && rm -rf m2 && mvn -B -s private.xml ${MAVEN_GOAL}`,
    prints: 'the reason',
    refusal: /GET is not allowed for the path \/private/,
    permitted: NOTHING,
  },
  {
    name: 'Gradle 4.4',
    site: 'maven',
    test: 'gradle --version && javac --version',
    reads: 'cd java && gradle -q --no-daemon answer 2>/dev/null',
    expected: 'pkg-f-1.0.jar',
    writes: 'cd java/private && gradle --no-daemon answer',
    prints: 'the reason',
    refusal: /GET is not allowed for the path \/private/,
    permitted: NOTHING,
  },
  {
    name: 'Maven 3.9',
    site: 'maven',
    test: `${MAVEN} --version && javac --version`,
    reads: `cd java && ${MAVEN} -q -B -s settings.xml ${MAVEN_GOAL} 2>/dev/null | grep -o 42`,
    expected: '42',
    writes: `cd java && rm -rf m2 && ${MAVEN} -B -s private.xml ${MAVEN_GOAL}`,
    prints: 'the reason',
    refusal: /GET is not allowed for the path \/private/,
    permitted: NOTHING,
  },
  {
    name: 'Deno 2.9',
    site: 'npm',
    test: `${DENO} --version`,
    reads: `${NPM_PROJECT.replaceAll('NAME', 'deno')} && ${DENO} install --quiet && ${DENO} eval 'import a from "@scope/pkg-a"; console.log(a)'`,
    expected: '42',
    writes: `${DENO} eval 'const answer = await fetch("URL/@scope%2fpkg-a", { method: "PUT", body: "x" }); console.log(answer.status, await answer.text())'`,
    prints: 'the reason',
    refusal: /405 .*the method PUT is not allowed for this host/s,
    permitted: NOTHING,
  },
]
