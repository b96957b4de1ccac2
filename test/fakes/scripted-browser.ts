import { PERSON_COOKIE } from './oidc-server.ts'

type Page = { readonly url: URL; readonly status: number; readonly text: string }

/** A browser of one person: it keeps cookies, follows redirects, and sends the forms of the OpenID Connect server. */
export function scriptedBrowser(person: string) {
  const cookies = new Map([[PERSON_COOKIE, person]])
  const keepCookies = (answer: Response) => {
    for (const cookie of answer.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(cookie) ?? []
      cookies.set(name, value)
    }
  }

  async function load(url: URL, form?: URLSearchParams, redirects = 0): Promise<Page> {
    if (redirects > 20) throw new Error(`too many redirects at ${url}`)
    const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ')
    const answer = await fetch(url, {
      redirect: 'manual',
      headers: { cookie },
      ...(form && { method: 'POST', body: form }),
    })
    keepCookies(answer)
    const next = answer.headers.get('location')
    if (next !== null) return load(new URL(next, url), undefined, redirects + 1)
    return { url, status: answer.status, text: await answer.text() }
  }

  return {
    /** Opens a page and returns the page at the end of its redirects. */
    open: (url: string) => load(new URL(url)),
    /** Enters a device code, and confirms it. */
    async enterCode(url: string, code: string): Promise<Page> {
      const first = await load(new URL(url))
      const page = await load(first.url, formOf(first, { user_code: code }))
      return load(page.url, formOf(page, { user_code: code, confirm: 'yes' }))
    },
  }
}

/** The hidden fields of a page's form, with more values. */
function formOf({ text }: Page, values: Record<string, string>): URLSearchParams {
  const hidden = [...text.matchAll(/name="(\w+)" value="([^"]*)"/g)].map(([, name = '', value = '']) => [
    name,
    value,
  ])
  return new URLSearchParams({ ...Object.fromEntries(hidden), ...values })
}
