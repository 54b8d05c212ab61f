/** A small shop and what an agent made of it: every kind of change the review has to show. */
type Content = Readonly<Record<string, string | null>>

const cartBefore = `import { money } from './money'
import type { Item } from './types'

export type Cart = { items: Item[]; coupon: string | null }

export function total(cart: Cart): number {
  let sum = 0
  for (const item of cart.items) {
    sum += item.price * item.quantity
  }
  return sum
}

export function addItem(cart: Cart, item: Item): Cart {
  const existing = cart.items.find((other) => other.id === item.id)
  if (existing) {
    existing.quantity += item.quantity
    return cart
  }
  return { ...cart, items: [...cart.items, item] }
}

export function removeItem(cart: Cart, id: string): Cart {
  return { ...cart, items: cart.items.filter((item) => item.id !== id) }
}

export function describe(cart: Cart): string {
  return cart.items.map((item) => item.quantity + ' x ' + item.name).join(', ')
}

export function isEmpty(cart: Cart): boolean {
  return cart.items.length == 0
}
`

const cartAfter = `import { discountFor } from './coupons'
import { money } from './money'
import type { Item } from './types'

export type Cart = { readonly items: readonly Item[]; readonly coupon: string | null }

/** In cents, after the coupon. Never below zero. */
export function total(cart: Cart): number {
  const sum = cart.items.reduce((rest, item) => rest + item.price * item.quantity, 0)
  return Math.max(0, sum - discountFor(cart.coupon, sum))
}

export function addItem(cart: Cart, item: Item): Cart {
  const existing = cart.items.find((other) => other.id === item.id)
  if (existing === undefined) return { ...cart, items: [...cart.items, item] }
  const merged = { ...existing, quantity: existing.quantity + item.quantity }
  return { ...cart, items: cart.items.map((other) => (other === existing ? merged : other)) }
}

export function removeItem(cart: Cart, id: string): Cart {
  return { ...cart, items: cart.items.filter((item) => item.id !== id) }
}

export function describe(cart: Cart): string {
  return cart.items.map((item) => \`\${item.quantity} × \${item.name}, \${money(item.price)}\`).join(', ')
}

export function isEmpty(cart: Cart): boolean {
  return cart.items.length === 0
}
`

const couponsAfter = `/** Percent off, by code. */
const percentages: Readonly<Record<string, number>> = { WELCOME: 10, HARVEST: 25 }

export function discountFor(code: string | null, sum: number): number {
  if (code === null) return 0
  const percent = percentages[code.trim().toUpperCase()] ?? 0
  return Math.round((sum * percent) / 100)
}
`

const testBefore = `import { expect, test } from 'vitest'
import { addItem, total } from '../src/cart'

test('the total is the sum of prices', () => {
  const cart = addItem({ items: [], coupon: null }, { id: 'a', name: 'Lemon', price: 120, quantity: 2 })
  expect(total(cart)).toBe(240)
})
`
const testAfter = `${testBefore}
test('a coupon takes its percentage off', () => {
  const cart = addItem({ items: [], coupon: 'harvest' }, { id: 'a', name: 'Orange', price: 200, quantity: 2 })
  expect(total(cart)).toBe(300)
})

test('adding twice does not change the first cart', () => {
  const first = addItem({ items: [], coupon: null }, { id: 'a', name: 'Lime', price: 90, quantity: 1 })
  const second = addItem(first, { id: 'a', name: 'Lime', price: 90, quantity: 1 })
  expect(first.items[0]?.quantity).toBe(1)
  expect(second.items[0]?.quantity).toBe(2)
})
`

const lock = (count: number, version: string) =>
  `{\n${Array.from({ length: count }, (_, at) => `  "node_modules/package-${at}": { "version": "${version}.${at}" }`).join(',\n')}\n}\n`

export const base: Content = {
  'src/cart.ts': cartBefore,
  'src/legacy/discount.js': `module.exports = function discount(sum) {\n  return sum * 0.9\n}\n`,
  'src/money.ts': `export const money = (cents: number): string => (cents / 100).toFixed(2) + ' €'\n`,
  'src/styles/price.css': `.price {\n  color: #333;\n  font-weight: bold;\n}\n`,
  'test/cart.test.ts': testBefore,
  'package.json': `{\n  "name": "shop",\n  "scripts": { "test": "vitest run" },\n  "dependencies": { "vitest": "5.0.0" }\n}\n`,
  'package-lock.json': lock(340, '1.0'),
  '.envrc': `use flake\n`,
  'README.md': `# Shop\n\nSells citrus.\n`,
}

export const result: Content = {
  ...base,
  'src/cart.ts': cartAfter,
  'src/coupons.ts': couponsAfter,
  'src/legacy/discount.js': null,
  'src/styles/price.css': `.price {\n  color: var(--ink);\n  font-variant-numeric: tabular-nums;\n  font-weight: 600;\n}\n`,
  'test/cart.test.ts': testAfter,
  'package.json': `{\n  "name": "shop",\n  "scripts": { "test": "vitest run", "postinstall": "node scripts/setup.js" },\n  "dependencies": { "vitest": "5.1.0" }\n}\n`,
  'package-lock.json': lock(340, '1.1'),
  '.envrc': `use flake\nexport NODE_OPTIONS=--require=./scripts/setup.js\n`,
  'README.md': `# Shop\n\nSells citrus, with coupons.\n\n## Coupons\n\n\`WELCOME\` takes 10 % off, \`HARVEST\` 25 %.\n`,
}

/** Names and lines written to deceive whoever reads them. */
export const hostile: Content = {
  '<img src=x onerror=alert(1)>.ts': `const a = 1\n`,
  'invoice\u202Efdp.exe': `run me\n`,
  'line\nbreak.txt': `two lines in a name\n`,
  'bidi.js': `if (user !== "admin\u202e \u2066// only for admins\u2069 \u2066") {\n  grant()\n}\n<script>alert(1)</script>\n`,
  'escape.txt': `\u001b]52;c;ZXZpbA==\u0007\u001b[2J\u001b[31mred\r\nback\u0008space\n`,
  'quote\'"`.md': `[click](javascript:alert(1))\n`,
}
