"""Text against what is behind it, by WCAG 2: 4.5 to 1, and 3 to 1 where it is large."""

from __future__ import annotations

from typing import Any

_WEAK = """() => {
  const parse = (text) => {
    const numbers = text.match(/-?[0-9.]+/g).map(Number);
    const scale = text.startsWith("color(") ? 255 : 1;
    return [...numbers.slice(0, 3).map((value) => value * scale), numbers[3] ?? 1];
  };
  const over = ([r, g, b, a], below) => [r, g, b].map((value, at) => value * a + below[at] * (1 - a));
  const luminance = (colour) => {
    const linear = (value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
    const [r, g, b] = colour.map((value) => linear(value / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    if (element === null) return [255, 255, 255];
    const box = element instanceof SVGTextElement ? element.parentElement : null;
    const style = getComputedStyle(element);
    if (box !== null) {
      const shape = element.classList.contains("badge-text") ? box.querySelector(".badge") : box.querySelector(".box");
      const fill = shape && getComputedStyle(shape).fill;
      if (fill && fill !== "none") return over(parse(fill), behind(element.ownerSVGElement));
      return behind(element.ownerSVGElement);
    }
    return over(parse(style.backgroundColor), behind(element.parentElement));
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (node.data.trim() === "" || !element.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
    if (element.closest("title, noscript, .skip, :disabled, .u-legend .u-off")) continue;
    const style = getComputedStyle(element);
    const isSvg = element instanceof SVGElement;
    const below = behind(element);
    const [front, back] = [luminance(over(parse(isSvg ? style.fill : style.color), below)), luminance(below)];
    const ratio = (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05);
    const size = parseFloat(style.fontSize);
    const isLarge = size >= 24 || (size >= 18.6 && Number(style.fontWeight) >= 700);
    const name = `${element.tagName}.${element.getAttribute("class") ?? ""}`;
    if (ratio < (isLarge ? 3 : 4.5)) found.push(`${name}: ${node.data.slice(0, 30)} ${ratio.toFixed(2)}`);
  }
  return [...new Set(found)];
}"""


def weak_texts(page: Any) -> list[str]:
    """Texts that are hard to read, each with its contrast."""
    found: list[str] = page.evaluate(_WEAK)
    return found
