// What a reader of the open page would complain of, as sentences.
() => {
  const faults = [];
  const width = document.documentElement.scrollWidth;
  if (width > innerWidth) faults.push(`the page is ${width} pixels wide`);
  for (const image of document.images) {
    if (!image.naturalWidth) faults.push(`there is no image ${image.src}`);
  }

  const headings = [...document.querySelectorAll("h1, h2, h3, h4, h5, h6")]
    .filter((heading) => heading.checkVisibility())
    .map((heading) => Number(heading.tagName[1]));
  if (headings[0] !== 1 || headings.lastIndexOf(1) !== 0) faults.push(`headings: ${headings}`);
  headings.forEach((level, i) => {
    if (level > headings[i - 1] + 1) faults.push(`heading ${i} skips a level`);
  });

  const once = (compute) => {
    const known = new Map();
    return (key) => known.get(key) ?? known.set(key, compute(key)).get(key);
  };
  // Colours are drawn on one pixel: whatever their notation, they come back as numbers.
  const pixel = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const colour = once((text) => {
    pixel.clearRect(0, 0, 1, 1);
    pixel.fillStyle = text;
    pixel.fillRect(0, 0, 1, 1);
    const [red, green, blue, alpha] = pixel.getImageData(0, 0, 1, 1).data;
    return { rgb: [red, green, blue], alpha: alpha / 255 };
  });
  const blend = (front, alpha, back) => front.map((v, i) => v * alpha + back[i] * (1 - alpha));
  const background = once((element) => {
    if (!element) return [255, 255, 255];
    const own = colour(getComputedStyle(element).backgroundColor);
    return own.alpha === 1 ? own.rgb : blend(own.rgb, own.alpha, background(element.parentElement));
  });
  const opacity = once((element) =>
    element ? getComputedStyle(element).opacity * opacity(element.parentElement) : 1,
  );
  const luminance = (rgb) => {
    const [red, green, blue] = rgb.map((v) =>
      v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4,
    );
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05;
  };
  const contrast = (element) => {
    const back = background(element);
    const ink = colour(getComputedStyle(element).color);
    const front = blend(ink.rgb, ink.alpha * opacity(element), back);
    const [high, low] = [front, back].map(luminance).sort((a, b) => b - a);
    return high / low;
  };

  const elements = new Set();
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    if (texts.currentNode.data.trim()) elements.add(texts.currentNode.parentElement);
  }
  const faint = new Map();
  for (const element of elements) {
    if (element.closest("script, style, svg") || contrast(element) >= 4.5) continue;
    if (!element.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
    faint.set(`${element.tagName}.${element.className}`, contrast(element).toFixed(2));
  }
  for (const [element, ratio] of faint) faults.push(`${element} has a contrast of ${ratio}`);
  return faults;
};
