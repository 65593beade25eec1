// Sets the stored theme before the first paint; without a stored one the system's choice holds (style.css).
try {
  const theme = localStorage.getItem('weir.theme');
  if (theme) document.documentElement.dataset.theme = theme;
} catch { /* storage is off: the system's choice holds */ }
