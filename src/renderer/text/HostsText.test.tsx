import { renderToStaticMarkup } from 'react-dom/server'
import { expect, test } from 'vitest'
import { HostsText, portsApart } from './HostsText.tsx'

test('a port is a piece of its own, that no line breaks; the text stays what it was', () => {
  const text = 'a.example:443, [2a00::1]:8443=10.0.0.7:80 and b.example (denied)'
  expect(portsApart(text).filter(({ isPort }) => isPort)).toMatchObject([
    { text: ':443' },
    { text: ':8443' },
    { text: ':80' },
  ])
  expect(
    portsApart(text)
      .map(({ text: piece }) => piece)
      .join(''),
  ).toBe(text)
  const markup = renderToStaticMarkup(<HostsText>a.example:443</HostsText>)
  expect(markup).toBe('<bdi>a.example</bdi><wbr/><span class="whitespace-nowrap"><bdi>:443</bdi></span>')
})

test('what only looks like a port is left in its word', () => {
  for (const text of ['2a00::1', 'fe80:1:2::9', 'a:b', 'x:123456', '10:30:00'])
    expect(portsApart(text)).toEqual([{ at: 0, text, isPort: false }])
})
