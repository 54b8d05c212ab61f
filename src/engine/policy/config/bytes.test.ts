import { expect, test } from 'vitest'
import { bytesOf, textOf } from './bytes.ts'

test('every file comes back from its text byte for byte, and one in UTF-8 is read as what it is', () => {
  const cases = ['', 'é € 😀 \ufffd', '\ufeff{}', '\u0000'].map((text) => Buffer.from(text))
  for (const bytes of cases) expect(textOf(bytes)).toBe(bytes.toString())
  const all = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte))
  // Cut short, overlong, half of a pair, beyond the last character.
  const wrong = ['e9', 'c3', 'e282', 'c080', 'eda080', 'f4908080', 'f0808080'].map((hex) =>
    Buffer.from(`61${hex}62`, 'hex'),
  )
  for (const bytes of [...cases, all, Buffer.concat([all, all]), ...wrong])
    expect(bytesOf(textOf(bytes)).equals(bytes), bytes.toString('hex')).toBe(true)
  expect(textOf(Buffer.from('c3a9 e9 f09f9880'.replaceAll(' ', ''), 'hex'))).toBe('é\udce9😀')
})
